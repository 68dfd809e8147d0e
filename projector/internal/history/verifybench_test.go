package history_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

const (
	// benchAggregates is the number of aggregates, each with four events.
	benchAggregates = 50_000
	// benchWorkers is the number of ranges worked on at once, as with several pods.
	benchWorkers = 4
)

// benchStore combines the loader and the writer of read models.
type benchStore struct {
	*readmodel.Loader
	*readmodel.Writer
}

// notParked is a parked list that is empty.
type notParked struct{}

func (notParked) Park(context.Context, []model.Marker) error { return nil }

func (notParked) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	return make([]model.Position, len(units)), nil
}

// BenchmarkVerify compares 50,000 read models with the fold of their 200,000 events,
// through the wire protocol and the stand-in for MongoDB. raw-events/s is the upper
// limit: the rate of a loop that reads the same events and documents in the same groups
// and compares nothing.
func BenchmarkVerify(b *testing.B) {
	const events = 4 * benchAggregates
	p := projectiontest.One(b, definitions["keeps its documents"])
	db := history.Server.Database(b)
	load(b, db, p)
	reader, err := eventstore.NewReader(db.Collection("events"), event.DefaultFields(), zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	store := benchStore{readmodel.NewLoader(db, readmodel.LoaderOptions{}), readmodel.NewWriter(db, readmodel.WriterOptions{})}
	ctx, stop := context.WithCancel(b.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = store.Loader.Run(ctx) })
	loops.Go(func() { _ = store.Writer.Run(ctx) })
	defer loops.Wait()
	defer stop()
	u := model.Unit{Projection: "p", Collection: "things"}
	worker := history.New(history.Options{
		Events: reader, Store: store, Repairer: readmodel.NewRepairer(db), Parking: notParked{},
		Listing: history.NewDatabase(db), Findings: history.NewFindingStore(db),
		Target: func(context.Context, string, int64) (engine.Target, error) {
			return engine.Target{Projection: p, Collection: u.Collection}, nil
		},
	})
	j := job.Job{ID: "bench", Kind: job.Verify, Projection: "p", Generation: 1}
	ranges, _, err := worker.Plan(b.Context(), j)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		raw := eachRange(b, ranges, func(ctx context.Context, r bson.Raw) error { return readRange(ctx, reader, store, u, r) })
		var mu sync.Mutex
		counts := map[string]int64{}
		took := eachRange(b, ranges, func(ctx context.Context, r bson.Raw) error {
			var s saved
			if err := worker.Work(ctx, j, job.Range{Part: r}, &s); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for name, n := range s.counts {
				counts[name] += n
			}
			return nil
		})
		if counts[history.CountEvents] != events || counts[history.CountAggregates] != benchAggregates || history.Wrong(counts) != 0 {
			b.Fatalf("counts are %v", counts)
		}
		b.ReportMetric(events/raw.Seconds(), "raw-events/s")
		b.ReportMetric(events/took.Seconds(), "events/s")
		b.ReportMetric(raw.Seconds()/took.Seconds(), "of-raw")
	}
	b.ReportMetric(0, "ns/op")
}

// load stores the events and the read models.
func load(b *testing.B, db *mongo.Database, p *projection.Projection) {
	b.Helper()
	reader := testkit.EventReader()
	mongotest.IndexEvents(b, db.Collection("events"))
	var events, models []any
	for i := range benchAggregates {
		id := fmt.Sprintf("aggregate-%06d", i)
		acc := p.Begin(nil, 0)
		for n := range 4 {
			document := testkit.Raw(bson.D{
				{Key: "aggregateId", Value: id}, {Key: "eventId", Value: int64(n + 1)}, {Key: "eventType", Value: []string{"Set", "Add", "Add", "Nothing"}[n]},
				{Key: "payload", Value: bson.D{{Key: "n", Value: int64(i)}, {Key: "text", Value: fmt.Sprintf("%0200d", i)}}},
			})
			ev, err := reader.Read(document)
			if err != nil {
				b.Fatal(err)
			}
			if err := acc.Add([]*event.Event{&ev}); err != nil {
				b.Fatal(err)
			}
			events = append(events, document)
		}
		models = append(models, documentOf(id, 4, 1, acc.State()))
	}
	for collection, documents := range map[string][]any{"events": events, "things": models} {
		if _, err := db.Collection(collection).InsertMany(b.Context(), documents, options.InsertMany().SetOrdered(false)); err != nil {
			b.Fatal(err)
		}
	}
}

// eachRange works on all ranges, benchWorkers at once.
func eachRange(b *testing.B, ranges []bson.Raw, work func(ctx context.Context, r bson.Raw) error) time.Duration {
	b.Helper()
	start := time.Now()
	queue := make(chan bson.Raw)
	errs := make([]error, benchWorkers)
	var working sync.WaitGroup
	for i := range benchWorkers {
		working.Go(func() {
			for r := range queue {
				errs[i] = errors.Join(errs[i], work(b.Context(), r))
			}
		})
	}
	for _, r := range ranges {
		queue <- r
	}
	close(queue)
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// readRange reads the events of a range and the documents of their aggregates.
func readRange(ctx context.Context, reader *eventstore.Reader, store benchStore, u model.Unit, r bson.Raw) error {
	var bounds struct {
		Direction   string
		From, Until eventstore.Position
	}
	if err := bson.Unmarshal(r, &bounds); err != nil || bounds.Direction != "events" {
		return err
	}
	cursor, err := reader.Open(ctx, bounds.From, bounds.Until, bson.Timestamp{})
	if err != nil || cursor == nil {
		return err
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	var units []model.Unit
	load := func() error {
		states, err := store.Load(ctx, units)
		if err == nil {
			store.Release(states)
		}
		units = nil
		return err
	}
	for {
		page, err := cursor.Next(ctx)
		if errors.Is(err, eventstore.ErrEnd) {
			return load()
		}
		if err != nil {
			return err
		}
		for _, document := range page {
			if document.Lookup("eventId").AsInt64() == 4 {
				u.AggregateID = document.Lookup("aggregateId").StringValue()
				units = append(units, u)
			}
		}
		if len(units) >= 1024 {
			if err := load(); err != nil {
				return err
			}
		}
	}
}
