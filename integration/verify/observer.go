package verify

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

// Observer measures when an event's effect is in its read model. It watches the read models
// themselves and does not rely on the services. Make it with [NewObserver].
type Observer struct {
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

// NewObserver makes an observer of a workload's read models and views in a database.
func NewObserver(models *mongo.Database, w *workload.Workload) *Observer {
	return &Observer{models: models, collections: w.Collections, views: w.Views, aggregates: make(map[string]*observed)}
}

// Stored records events that are about to be stored.
func (o *Observer) Stored(batch []workload.Event, at time.Time) {
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
func (o *Observer) shown(view, aggregateID string, last int64, at time.Time) {
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
func (o *Observer) isView(projection string) bool {
	return slices.ContainsFunc(o.views, func(v workload.View) bool { return v.Projection == projection })
}

// Projected counts the events whose effect is in a read model and in the views.
func (o *Observer) Projected() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// Latencies returns the sorted times from insert to read model of the events shown since the
// last call.
func (o *Observer) Latencies() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.latencies
	o.latencies = nil
	slices.Sort(l)
	return l
}

// Run watches until ctx ends. It calls opened when the stream is open: later changes are
// seen. The stream is of the database, because the stream of a collection ends when another
// collection takes its name.
func (o *Observer) Run(ctx context.Context, opened func()) error {
	stream, err := o.models.Watch(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "$or", Value: bson.A{
			bson.D{
				{Key: "ns.coll", Value: bson.D{{Key: "$in", Value: append([]string{"watermarks"}, o.collections...)}}},
				{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"insert", "update", "replace"}}}},
			},
			bson.D{{Key: "to.coll", Value: bson.D{{Key: "$in", Value: o.collections}}}, {Key: "operationType", Value: "rename"}},
		}}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "documentKey", Value: 1}, {Key: "to.coll", Value: 1},
			{Key: "fullDocument.lastEventId", Value: 1}, {Key: "updateDescription.updatedFields.lastEventId", Value: 1},
		}}},
	}, options.ChangeStream().SetBatchSize(4096))
	if err != nil {
		return fmt.Errorf("watch the read models: %w", err)
	}
	opened()
	if err := o.watch(ctx, stream); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (o *Observer) watch(ctx context.Context, stream *mongo.ChangeStream) error {
	defer stream.Close(context.WithoutCancel(ctx))
	for stream.Next(ctx) {
		change, now := stream.Current, time.Now()
		if renamed, ok := change.Lookup("to", "coll").StringValueOK(); ok {
			if err := o.replaced(ctx, o.models.Collection(renamed)); err != nil {
				return err
			}
			continue
		}
		view := ""
		id, ok := change.Lookup("documentKey", "_id").StringValueOK()
		if !ok {
			// The change is of a side watermark, whose key has the projection too. That of a view
			// has the aggregate's part.
			id, _ = change.Lookup("documentKey", "_id", "aggregateId").StringValueOK()
			if projection, _ := change.Lookup("documentKey", "_id", "projection").StringValueOK(); o.isView(projection) {
				view = projection
			}
		}
		last, ok := change.Lookup("fullDocument", "lastEventId").AsInt64OK()
		if !ok {
			last, _ = change.Lookup("updateDescription", "updatedFields", "lastEventId").AsInt64OK()
		}
		o.shown(view, id, last, now)
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("watch the read models: %w", err)
	}
	return nil
}

// replaced records what a collection shows after a new generation has taken its name. The
// projectors apply an event to the new generation only if the promotion has paused the
// writes to the old one. The change of that document names another collection.
func (o *Observer) replaced(ctx context.Context, collection *mongo.Collection) error {
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
