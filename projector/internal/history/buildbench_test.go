package history

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

const (
	// benchAggregates have four events each.
	benchAggregates = 50_000
	// benchWorkers is the number of ranges that run concurrently, as on several pods.
	benchWorkers = 4
)

// eachRange works on the ranges of a plan, some of them concurrently.
func eachRange(tb testing.TB, ranges []span, work func(ctx context.Context, r span) error) time.Duration {
	tb.Helper()
	start := time.Now()
	queue := make(chan span)
	errs := make([]error, benchWorkers)
	var working sync.WaitGroup
	for i := range benchWorkers {
		working.Go(func() {
			for r := range queue {
				errs[i] = errors.Join(errs[i], work(tb.Context(), r))
			}
		})
	}
	for _, r := range ranges {
		queue <- r
	}
	close(queue)
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	return time.Since(start)
}

// BenchmarkBuild folds 200,000 events, four of each aggregate, into a new generation,
// through the wire protocol and the stand-in for MongoDB. raw-events/s is the upper
// limit: the rate of a loop that reads the events of the same ranges and inserts one
// document for each aggregate in bulks, without folding.
func BenchmarkBuild(b *testing.B) {
	const events = 4 * benchAggregates
	p := newParts(b, 2)
	p.load(b, benchAggregates)
	workers := New(Options{Events: p.reader, Targets: p.targets, Store: p, Repairer: p, Parking: p, Engine: p})
	ranges, _, err := workers.plan(b.Context(), testJob)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, name := range []string{"orders.generation-2", "raw"} {
			if err := p.database.Collection(name).Drop(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		raw := eachRange(b, ranges, p.copyRange)
		folded := eachRange(b, ranges, func(ctx context.Context, r span) error {
			return workers.build(ctx, testJob, r, &saver{saves: -1})
		})
		n, err := p.database.Collection("orders.generation-2").CountDocuments(b.Context(), bson.D{})
		if err != nil || n != benchAggregates {
			b.Fatalf("%d read models: %v", n, err)
		}
		b.ReportMetric(events/raw.Seconds(), "raw-events/s")
		b.ReportMetric(events/folded.Seconds(), "events/s")
		b.ReportMetric(raw.Seconds()/folded.Seconds(), "of-raw")
	}
	b.ReportMetric(0, "ns/op")
}

// copyRange reads events and inserts the last one of each aggregate.
func (p *parts) copyRange(ctx context.Context, r span) error {
	target := p.database.Collection("raw")
	cursor, err := p.reader.Open(ctx, r.From, r.Until, r.Since)
	if err != nil || cursor == nil {
		return err
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	var documents []any
	insert := func() error {
		if len(documents) == 0 {
			return nil
		}
		_, err := target.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
		documents = nil
		return err
	}
	for {
		page, err := cursor.Next(ctx)
		if errors.Is(err, eventstore.ErrEnd) {
			return insert()
		}
		if err != nil {
			return err
		}
		for _, document := range page {
			if document.Lookup("eventId").AsInt64() == 4 {
				documents = append(documents, bson.D{
					{Key: "_id", Value: document.Lookup("aggregateId")}, {Key: "lastEventId", Value: int64(4)}, {Key: "lastGeneration", Value: int64(1)},
					{Key: "payload", Value: document.Lookup("payload")}, {Key: "metadata", Value: document.Lookup("metadata")},
				})
			}
		}
		if len(documents) >= batchLimits.histories {
			if err := insert(); err != nil {
				return err
			}
		}
	}
}
