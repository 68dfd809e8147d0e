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
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// observer sees from outside when an event's effect stands in its read model: it
// watches the read models themselves, and no service's word for it.
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

// stored takes note of events about to be stored.
func (o *observer) stored(batch []workload.Event, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range batch {
		o.storedAt[batch[i].AggregateID] = append(o.storedAt[batch[i].AggregateID], at)
	}
}

// shown takes note that a read model shows its aggregate's events up to last.
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

// projectedEvents counts the events whose effect is shown.
func (o *observer) projectedEvents() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// percentile is the latency that a share of the events did not exceed.
func (o *observer) percentile(share float64) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.latencies) == 0 {
		return 0
	}
	slices.Sort(o.latencies)
	return o.latencies[int(share*float64(len(o.latencies)-1))]
}

// run watches until ctx ends. opened is called once every stream is open: what
// happens after it is seen.
func (o *observer) run(ctx context.Context, opened func()) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range append([]string{"watermarks"}, o.collections...) {
		stream, err := o.models.Collection(name).Watch(ctx, mongo.Pipeline{})
		if err != nil {
			return fmt.Errorf("watch the read models: %w", err)
		}
		group.Go(func() error { return o.watch(ctx, stream) })
	}
	opened()
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// change is what a change event tells of a read model or of a side watermark.
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
			// A side watermark: its key names the projection too.
			id, _ = c.DocumentKey.ID.Document().Lookup("aggregateId").StringValueOK()
		}
		o.shown(id, max(c.FullDocument.LastEventID, c.UpdateDescription.UpdatedFields.LastEventID), time.Now())
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("watch the read models: %w", err)
	}
	return nil
}
