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
	// generations are the definitions of each projection by their numbers, and live is the
	// number that readers saw last.
	generations map[generation]string
	live        map[string]int64
	// reused describes generations that went back, or got another definition.
	reused []string
	// findings describe what a reader must never see.
	findings []string
	// seen are the read models of the last read.
	seen map[string]int64
}

// generation is a number of a projection's definition.
type generation struct {
	projection string
	number     int64
}

// saved is a position of the checkpoint that was stored at a time.
type saved struct {
	read time.Time
	at   bson.Timestamp
}

func newObserver(w *World) *observer {
	return &observer{world: w, generations: make(map[generation]string), live: make(map[string]int64)}
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
			o.readCatalog(ctx)
			o.readModels(ctx)
		}
	}
}

// readCatalog reads the generations of each projection. A number must have one definition for
// ever, and the live one must never be a lower one.
func (o *observer) readCatalog(ctx context.Context) {
	type definition struct {
		Number int64  `bson:"generation"`
		Hash   string `bson:"hash"`
	}
	var entries []struct {
		Name     string      `bson:"_id"`
		Live     *definition `bson:"live"`
		Building *definition `bson:"building"`
	}
	fields := bson.D{{Key: "live.generation", Value: 1}, {Key: "live.hash", Value: 1}, {Key: "building.generation", Value: 1}, {Key: "building.hash", Value: 1}}
	cursor, err := o.world.state("projections").Find(ctx, bson.D{}, options.Find().SetProjection(fields))
	if err != nil || cursor.All(ctx, &entries) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	find := func(format string, args ...any) {
		o.reused = append(o.reused, fmt.Sprintf("at %v: ", time.Since(o.world.history.began))+fmt.Sprintf(format, args...))
	}
	for _, e := range entries {
		if !o.world.owns(e.Name) {
			continue
		}
		for _, d := range []*definition{e.Live, e.Building} {
			if d == nil {
				continue
			}
			g := generation{e.Name, d.Number}
			if before, ok := o.generations[g]; ok && before != d.Hash {
				find("generation %d of %s had the definition %.8s and has %.8s", d.Number, e.Name, before, d.Hash)
			}
			o.generations[g] = d.Hash
		}
		if e.Live != nil {
			if e.Live.Number < o.live[e.Name] {
				find("the live generation of %s went back from %d to %d", e.Name, o.live[e.Name], e.Live.Number)
			}
			o.live[e.Name] = e.Live.Number
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
