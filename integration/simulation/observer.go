package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// observer reads what the pipeline stores, like an application and like an operator, while
// it happens.
type observer struct {
	world *World

	mu sync.Mutex
	// saved are the positions of the checkpoint, each with the time of its reading.
	saved []saved
	// epoch is that of the last position.
	epoch int64
	// back describes positions of the checkpoint that went back.
	back []string
	// findings describe what a reader must never see.
	findings []string
	// seen are the read models of the last read.
	seen map[string]int64
}

// saved is a position of the checkpoint that was stored at a time.
type saved struct {
	read time.Time
	at   bson.Timestamp
}

// run reads until ctx ends.
func (o *observer) run(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.readCheckpoint(ctx)
			o.readModels(ctx)
		}
	}
}

func (o *observer) readCheckpoint(ctx context.Context) {
	var found struct {
		Token       bson.Raw       `bson:"token"`
		Epoch       int64          `bson:"epoch"`
		ClusterTime bson.Timestamp `bson:"clusterTime"`
		Recovery    bson.Raw       `bson:"recovery"`
	}
	err := o.world.state("checkpoints").FindOne(ctx, bson.D{{Key: "_id", Value: o.world.named("events")}}).Decode(&found)
	if err != nil || found.Recovery != nil || found.Token == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.saved); n > 0 && o.epoch == found.Epoch && found.ClusterTime.Before(o.saved[n-1].at) {
		o.back = append(o.back, fmt.Sprintf("at %v: the checkpoint of epoch %d went back from %v to %v",
			time.Since(o.world.history.began), o.epoch, o.saved[n-1].at, found.ClusterTime))
	}
	o.epoch = found.Epoch
	if n := len(o.saved); n == 0 || !o.saved[n-1].at.Equal(found.ClusterTime) {
		o.saved = append(o.saved, saved{time.Now(), found.ClusterTime})
	}
}

// model is the part of a read model that a reader compares with its last read.
type model struct {
	ID      string `bson:"_id"`
	Version int64  `bson:"version"`
	Last    int64  `bson:"lastEventId"`
}

// readModels reads the whole ledger. Its documents must be of one version, and none may go
// back.
func (o *observer) readModels(ctx context.Context) {
	fields := bson.D{{Key: "version", Value: 1}, {Key: "lastEventId", Value: 1}}
	cursor, err := o.world.models("ledger").Find(ctx, bson.D{}, options.Find().SetProjection(fields).SetBatchSize(10000))
	if err != nil {
		return
	}
	var read []model
	if err := cursor.All(ctx, &read); err != nil {
		return // a promotion ends a read, and readers read again
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	find := func(format string, args ...any) {
		if len(o.findings) < 10 {
			o.findings = append(o.findings, fmt.Sprintf("at %v: ", time.Since(o.world.history.began))+fmt.Sprintf(format, args...))
		}
	}
	seen := make(map[string]int64, len(read))
	for _, m := range read {
		if m.Version != read[0].Version {
			find("the ledger has documents of the versions %d and %d at once", m.Version, read[0].Version)
		}
		if before := o.seen[m.ID]; m.Last < before {
			find("ledger %s went back from event %d to %d", m.ID, before, m.Last)
		}
		seen[m.ID] = m.Last
	}
	if len(read) == 0 && len(o.seen) > 3 {
		find("the ledger is empty and had %d documents", len(o.seen))
	}
	o.seen = seen
}
