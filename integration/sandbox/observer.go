package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	views       []workload.View

	mu         sync.Mutex
	aggregates map[string]*observed
	total      int
	latencies  []time.Duration
}

// observed is what an observer knows of an aggregate.
type observed struct {
	// storedAt holds the times of insert, in eventId order.
	storedAt []time.Time
	// shown has the last event that the aggregate's read model shows, under the name "", and
	// the last event that each view shows, under the view's name.
	shown map[string]int64
	// projected is the last event that all of them show.
	projected int64
}

func newObserver(models *mongo.Database, w *workload.Workload) *observer {
	return &observer{models: models, collections: w.Collections, views: w.Views, aggregates: make(map[string]*observed)}
}

// stored records events that are about to be stored.
func (o *observer) stored(batch []workload.Event, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range batch {
		a := o.aggregates[batch[i].AggregateID]
		if a == nil {
			a = &observed{shown: map[string]int64{"": 0}}
			for _, view := range o.views {
				if slices.Contains(view.AggregateTypes, batch[i].AggregateType) {
					a.shown[view.Projection] = 0
				}
			}
			o.aggregates[batch[i].AggregateID] = a
		}
		a.storedAt = append(a.storedAt, at)
	}
}

// shown records that a read model, or a view, shows an aggregate's events up to last.
func (o *observer) shown(view, aggregateID string, last int64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.aggregates[aggregateID]
	if a == nil {
		return
	}
	a.shown[view] = max(a.shown[view], min(last, int64(len(a.storedAt))))
	last = slices.Min(slices.Collect(maps.Values(a.shown)))
	for _, stored := range a.storedAt[a.projected:last] {
		o.latencies = append(o.latencies, at.Sub(stored))
	}
	o.total += int(last - a.projected)
	a.projected = last
}

// isView reports whether a projection is a view.
func (o *observer) isView(projection string) bool {
	return slices.ContainsFunc(o.views, func(v workload.View) bool { return v.Projection == projection })
}

// projectedEvents counts the events whose effect is in a read model and in the views.
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
		view := ""
		id, ok := c.DocumentKey.ID.StringValueOK()
		if !ok {
			// The change is of a side watermark, whose key has the projection too. That of a view
			// has the aggregate's part.
			key := c.DocumentKey.ID.Document()
			id, _ = key.Lookup("aggregateId").StringValueOK()
			if projection, _ := key.Lookup("projection").StringValueOK(); o.isView(projection) {
				view = projection
			}
		}
		o.shown(view, id, max(c.FullDocument.LastEventID, c.UpdateDescription.UpdatedFields.LastEventID), time.Now())
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
		o.shown("", id, last, time.Now())
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("read the new generation of %s: %w", collection.Name(), err)
	}
	return nil
}
