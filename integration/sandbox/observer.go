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
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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
	stream, err := o.models.Watch(ctx, mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "$or", Value: bson.A{
		bson.D{
			{Key: "ns.coll", Value: bson.D{{Key: "$in", Value: append([]string{"watermarks"}, o.collections...)}}},
			{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"insert", "update", "replace"}}}},
		},
		bson.D{{Key: "to.coll", Value: bson.D{{Key: "$in", Value: o.collections}}}, {Key: "operationType", Value: "rename"}},
	}}}}}})
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
// uses. To is set if a new generation takes the name of a collection.
type change struct {
	To struct {
		Coll string `bson:"coll"`
	} `bson:"to"`
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
		if c.To.Coll != "" {
			if err := o.replaced(ctx, o.models.Collection(c.To.Coll)); err != nil {
				return err
			}
			continue
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

// replaced records what a collection shows after a new generation has taken its name. The
// projectors apply an event to the new generation only if the promotion has paused the
// writes to the old one. The change of that document names another collection.
func (o *observer) replaced(ctx context.Context, collection *mongo.Collection) error {
	cursor, err := collection.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "lastEventId", Value: 1}}))
	if err != nil {
		return fmt.Errorf("read the new generation of %s: %w", collection.Name(), err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		id, _ := cursor.Current.Lookup("_id").StringValueOK()
		last, _ := cursor.Current.Lookup("lastEventId").AsInt64OK()
		o.shown(id, last, time.Now())
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("read the new generation of %s: %w", collection.Name(), err)
	}
	return nil
}
