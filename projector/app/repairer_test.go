package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/obs/obstest"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// If ids only increase, an aggregate that resumes from the event store skips an event that
// breaks the contract, as the live stream and a build do. In a strict sequence such an
// event is missing.
func TestResumeSkipsUnreadableEventsIfIDsOnlyIncrease(t *testing.T) {
	t.Parallel()
	for sequence, want := range map[event.Sequence]struct {
		watermark  int64
		reason     projection.Reason
		unreadable float64
	}{
		event.SequenceIncreasing: {4, "", 2},
		event.SequenceStrict:     {1, projection.ReasonMissing, 0},
	} {
		t.Run(string(sequence), func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			stored := func(id int64) bson.D {
				return bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Counted"}, {Key: "timestamp", Value: time.Now()}, {Key: "payload", Value: bson.D{}}}
			}
			broken := func(id int64) bson.D { return bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: id}} }
			if _, err := db.Collection("events").InsertMany(t.Context(), []bson.D{stored(1), broken(2), broken(3), stored(4)}); err != nil {
				t.Fatal(err)
			}
			projections := projectiontest.All(t, "projections: [{name: counts, collection: counts, on: {Counted: {inc: {n: '1'}}}}]")
			reader, err := eventstore.NewReader(db.Collection("events"), event.DefaultFields(), zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			registry := prometheus.NewRegistry()
			loader, writer := readmodel.NewLoader(db, readmodel.LoaderOptions{}), readmodel.NewWriter(db, readmodel.WriterOptions{})
			parked := park.NewStore(db.Collection(park.CollectionName), park.Options{Reasons: operate.Reasons()})
			eng, err := engine.New(engine.Options{
				Targets: engine.Live(projections), Store: readModels{loader, writer}, Parking: parked,
				Repairer: newRepairer(sequence, reader, registry), Sequence: sequence,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			for _, run := range []func(context.Context) error{loader.Run, writer.Run, parked.Run} {
				running.Go(func() {
					if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			defer running.Wait()
			defer stop()
			s := engine.Suspended{Projection: "counts", AggregateID: "a", RawAggregateID: bsontest.Value("a"), Head: 4}
			var resumed engine.Resumed
			for range 3 {
				if resumed, err = eng.Resume(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			reason := projection.Reason("")
			if resumed.Cause != nil {
				reason = resumed.Cause.Reason
			}
			if resumed.Watermark != want.watermark || reason != want.reason {
				t.Errorf("got watermark %d, cause %v; want %d, %q", resumed.Watermark, resumed.Cause, want.watermark, want.reason)
			}
			counted, _ := obstest.Find(t, registry, "penstock_projector_unreadable_events_total")
			if counted != want.unreadable {
				t.Errorf("%v unreadable events are counted, want %v", counted, want.unreadable)
			}
		})
	}
}
