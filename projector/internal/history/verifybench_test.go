package history

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// BenchmarkVerify compares 50,000 read models with the fold of their 200,000 events,
// through the wire protocol and the stand-in for MongoDB. raw-events/s is the upper
// limit: the rate of a loop that reads the same events and documents in the same groups
// and compares nothing.
func BenchmarkVerify(b *testing.B) {
	const events = 4 * benchAggregates
	p := newParts(b, 2)
	p.load(b, benchAggregates)
	workers := New(Options{
		Events: p.reader, Targets: p.targets, Store: p, Repairer: p, Parking: p, Engine: p,
		Listing: NewDatabase(p.database), Findings: NewFindingStore(p.database),
		Target: func(context.Context, string, int64) (engine.Target, error) { return *p.target(), nil },
	})
	if err := workers.build(b.Context(), testJob, span{}, &saver{saves: -1}); err != nil {
		b.Fatal(err)
	}
	j := job.Job{ID: "bench", Kind: job.Verify, Projection: "orders", Generation: 2}
	ranges, _, err := workers.plan(b.Context(), j)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		raw := eachRange(b, ranges, p.readRange)
		var mu sync.Mutex
		counts := map[string]int64{}
		took := eachRange(b, ranges, func(ctx context.Context, r span) error {
			s := &saver{saves: -1}
			if err := workers.verify(ctx, j, r, s); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for name, n := range s.r.counts {
				counts[name] += n
			}
			return nil
		})
		if counts[CountEvents] != events || counts[CountAggregates] != benchAggregates || Wrong(counts) != 0 {
			b.Fatalf("counts are %v", counts)
		}
		b.ReportMetric(events/raw.Seconds(), "raw-events/s")
		b.ReportMetric(events/took.Seconds(), "events/s")
		b.ReportMetric(raw.Seconds()/took.Seconds(), "of-raw")
	}
	b.ReportMetric(0, "ns/op")
}

// readRange reads the events of a range and the documents of their aggregates.
func (p *parts) readRange(ctx context.Context, r span) error {
	if r.Direction != forward {
		return nil
	}
	cursor, err := p.reader.Open(ctx, r.From, r.Until, bson.Timestamp{})
	if err != nil || cursor == nil {
		return err
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	var units []model.Unit
	load := func() error {
		states, err := p.Load(ctx, units)
		if err == nil {
			p.Release(states)
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
				units = append(units, p.target().Unit(document.Lookup("aggregateId").StringValue()))
			}
		}
		if len(units) >= 1024 {
			if err := load(); err != nil {
				return err
			}
		}
	}
}
