package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// observer measures when an event's effect is in its read model. It watches the read models
// themselves and does not rely on the services.
type observer struct {
	models      *mongo.Database
	collections []string

	mu sync.Mutex
	// storedAt holds each aggregate's times of insert, in eventId order.
	storedAt  map[string][]time.Time
	projected map[string]int64
	total     int
	latencies []time.Duration
}

func newObserver(models *mongo.Database, collections []string) *observer {
	return &observer{
		models: models, collections: collections,
		storedAt: make(map[string][]time.Time), projected: make(map[string]int64),
	}
}

// stored records events that are about to be stored.
func (o *observer) stored(batch []workload.Event, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range batch {
		o.storedAt[batch[i].AggregateID] = append(o.storedAt[batch[i].AggregateID], at)
	}
}

// shown records that a read model shows its aggregate's events up to last.
func (o *observer) shown(aggregateID string, last int64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	times := o.storedAt[aggregateID]
	before := o.projected[aggregateID]
	last = min(last, int64(len(times)))
	for n := before; n < last; n++ {
		o.latencies = append(o.latencies, at.Sub(times[n]))
	}
	if last > before {
		o.projected[aggregateID] = last
		o.total += int(last - before)
	}
}

// projectedEvents counts the events whose effect is in a read model.
func (o *observer) projectedEvents() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// percentiles returns the latencies that 50 % and 99 % of the events did not exceed, among
// the events shown since the last call.
func (o *observer) percentiles() (p50, p99 time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.latencies
	o.latencies = nil
	if len(l) == 0 {
		return 0, 0
	}
	slices.Sort(l)
	return l[(len(l)-1)/2], l[(len(l)-1)*99/100]
}

// run watches until ctx ends. It calls opened when the stream is open: later changes are
// seen. The stream is of the database, because the stream of a collection ends when another
// collection takes its name.
func (o *observer) run(ctx context.Context, opened func()) error {
	stream, err := o.models.Watch(ctx, mongo.Pipeline{{{Key: "$match", Value: bson.D{
		{Key: "ns.coll", Value: bson.D{{Key: "$in", Value: append([]string{"watermarks"}, o.collections...)}}},
		{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"insert", "update", "replace"}}}},
	}}}})
	if err != nil {
		return fmt.Errorf("watch the read models: %w", err)
	}
	opened()
	if err := o.watch(ctx, stream); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// change is the part of a change event of a read model or side watermark that the observer
// uses.
type change struct {
	DocumentKey struct {
		ID bson.RawValue `bson:"_id"`
	} `bson:"documentKey"`
	FullDocument struct {
		LastEventID int64 `bson:"lastEventId"`
	} `bson:"fullDocument"`
	UpdateDescription struct {
		UpdatedFields struct {
			LastEventID int64 `bson:"lastEventId"`
		} `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

func (o *observer) watch(ctx context.Context, stream *mongo.ChangeStream) error {
	defer stream.Close(context.WithoutCancel(ctx))
	for stream.Next(ctx) {
		var c change
		if err := stream.Decode(&c); err != nil {
			return fmt.Errorf("decode a read model's change: %w", err)
		}
		id, ok := c.DocumentKey.ID.StringValueOK()
		if !ok {
			// The change is of a side watermark, whose key has the projection too.
			id, _ = c.DocumentKey.ID.Document().Lookup("aggregateId").StringValueOK()
		}
		o.shown(id, max(c.FullDocument.LastEventID, c.UpdateDescription.UpdatedFields.LastEventID), time.Now())
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("watch the read models: %w", err)
	}
	return nil
}
