package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// jobHost runs the parts of a projector that jobs need, without sessions: the runners of
// two processes on one database.
type jobHost struct {
	database *mongo.Database
	jobs     *job.Store
	engine   *engine.Engine
}

const visitsYAML = `
projections:
  - name: visits
    collection: visits
    on:
      Came:
        inc: {count: "1"}
        set: {last: payload.at}
`

func newJobHost(t *testing.T) *jobHost {
	t.Helper()
	h := &jobHost{database: server.Database(t)}
	events := h.database.Collection("events")
	mongotest.IndexEvents(t, events)
	projections := projectiontest.All(t, visitsYAML)
	reader, err := eventstore.NewReader(events, event.DefaultFields(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := readmodel.Prepare(t.Context(), h.database, []string{"visits", "visits.generation-2"}); err != nil {
		t.Fatal(err)
	}
	h.jobs = job.NewStore(h.database, job.Options{})
	parked := park.NewStore(h.database.Collection(park.CollectionName), park.Options{Reasons: operate.Reasons()})
	parked.Serve([]park.Served{{Projection: "visits", Generation: 2}})
	if err := errors.Join(job.Prepare(t.Context(), h.database), park.Prepare(t.Context(), h.database.Collection(park.CollectionName))); err != nil {
		t.Fatal(err)
	}
	loader, writer := readmodel.NewLoader(h.database, readmodel.LoaderOptions{}), readmodel.NewWriter(h.database, readmodel.WriterOptions{})
	h.engine, err = engine.New(engine.Options{
		Targets: []engine.Target{
			{Projection: projections[0]},
			{Projection: projections[0], Generation: 2, Collection: "visits.generation-2", Building: true, Defers: true},
		},
		Store: readModels{loader, writer}, Parking: parked, Repairer: reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	workers := history.New(history.Options{
		Events: reader, Targets: h.engine.Targets, Parking: parked,
		Store: readModels{loader, writer}, Repairer: readmodel.NewRepairer(h.database),
		Engine: h.engine, SaveEvery: time.Millisecond,
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	runs := []func(context.Context) error{loader.Run, writer.Run, parked.Run}
	for _, holder := range []string{"one", "two"} {
		runs = append(runs, job.NewRunner(job.RunnerOptions{
			Jobs: h.jobs, Workers: map[job.Kind]job.Worker{job.Build: workers, job.Sweep: workers}, Holder: holder, Poll: 10 * time.Millisecond, Logger: zerolog.Nop(),
		}).Run)
	}
	for _, run := range runs {
		running.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return h
}

func (h *jobHost) insert(t *testing.T, documents ...any) {
	t.Helper()
	if _, err := h.database.Collection("events").InsertMany(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
}

// came returns an event.
func came(aggregate string, id int64) bson.D {
	return bson.D{
		{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Came"},
		{Key: "payload", Value: bson.D{{Key: "at", Value: id}}},
	}
}

// run runs a job to its end.
func (h *jobHost) run(t *testing.T, j job.Job) job.Job {
	t.Helper()
	created, err := h.jobs.Create(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := h.jobs.Await(t.Context(), created.ID, 5*time.Millisecond, func(job.Job) {})
	if err != nil || ended.State != job.Done {
		t.Fatalf("job %s ended as %s: %s, %v", j.ID, ended.State, ended.Reason, err)
	}
	return ended
}

// TestBuildParksAConflictUntilItEnds: while a generation is built, two documents can have one
// unique value, because one of them lacks the event that released it. That must not hold the
// promotion back until an operator acts.
func TestBuildParksAConflictUntilItEnds(t *testing.T) {
	t.Parallel()
	h := newJobHost(t)
	building := h.database.Collection("visits.generation-2")
	if _, err := building.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "last", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	other := bson.D{{Key: "_id", Value: "other"}, {Key: "lastEventId", Value: int64(1)}, {Key: "lastGeneration", Value: int64(2)}, {Key: "last", Value: int64(2)}}
	if _, err := building.InsertOne(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	h.insert(t, came("a", 1), came("a", 2))
	if built := h.run(t, job.Job{ID: "visits.2.build", Kind: job.Build, Projection: "visits", Generation: 2}); built.Counts[history.CountParked] != 1 {
		t.Errorf("the build counts %v", built.Counts)
	}
	var marker struct {
		RawAggregateID bson.RawValue `bson:"rawAggregateId"`
		Reason         string
		EventID        int64 `bson:"eventId"`
		Head           int64
		RetryAt        time.Time `bson:"retryAt"`
	}
	err := h.database.Collection(park.CollectionName).FindOne(t.Context(), bson.D{{Key: "_id.aggregateId", Value: "a"}}).Decode(&marker)
	if err != nil || marker.Reason != "conflict" || marker.EventID != 2 || marker.Head != 2 || marker.RetryAt.IsZero() {
		t.Fatalf("parked as %+v: %v", marker, err)
	}
	if _, err := building.UpdateByID(t.Context(), "other", bson.D{{Key: "$set", Value: bson.D{{Key: "last", Value: int64(3)}}}}); err != nil {
		t.Fatal(err)
	}
	suspended := engine.Suspended{Projection: "visits", AggregateID: "a", Generation: 2, RawAggregateID: marker.RawAggregateID, Head: marker.Head}
	if r, err := h.engine.Resume(t.Context(), suspended); err != nil || r.Cause != nil || r.Watermark != 2 {
		t.Errorf("resumed to %+v, %v", r, err)
	}
}
