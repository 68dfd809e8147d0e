package history

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// TestBuildOverTheWireProtocolEqualsTheFold folds a store over the wire protocol, and
// compares each document with the fold of all its events at once.
func TestBuildOverTheWireProtocolEqualsTheFold(t *testing.T) {
	t.Parallel()
	for _, generation := range []int64{1, 2} {
		p := newParts(t, generation)
		const aggregates = 3000
		p.load(t, aggregates)
		j := job.Job{Projection: "orders", Generation: generation}
		workers := New(Options{Events: p.reader, Targets: p.targets, Store: p, Repairer: p, Parking: p, Engine: p})
		ranges, total, err := workers.plan(t.Context(), j)
		if err != nil || total != 4*aggregates || len(ranges) < 32 {
			t.Fatalf("%d ranges, total %d, %v", len(ranges), total, err)
		}
		// Each range of a job with a grace waits once, so the plan has few ranges.
		graceful := job.Job{Projection: "orders", Generation: generation, Params: testkit.Raw(Params{GraceMillis: 1})}
		if ranges, _, err := workers.plan(t.Context(), graceful); err != nil || len(ranges) != graceRanges {
			t.Errorf("%d ranges of a job with a grace, %v", len(ranges), err)
		}
		eachRange(t, ranges, func(ctx context.Context, r span) error {
			return workers.build(ctx, j, r, &saver{saves: -1})
		})
		cursor, err := p.database.Collection("orders.generation-2").Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var documents []bson.Raw
		if err := cursor.All(t.Context(), &documents); err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bson.Raw, len(documents))
		for _, document := range documents {
			found[document.Lookup("_id").StringValue()] = document
		}
		if len(found) != aggregates {
			t.Errorf("%d documents, want %d", len(found), aggregates)
		}
		for i := range aggregates {
			var events []*event.Event
			for _, document := range order(i) {
				ev, err := p.reader.Read(testkit.Raw(document))
				if err != nil {
					t.Fatal(err)
				}
				events = append(events, &ev)
			}
			want := p.projection.Fold(nil, events)
			own := bson.D{}
			document := found[events[0].AggregateID]
			elements, err := document.Elements()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range elements {
				switch e.Key() {
				case "_id", "lastUpdatedAt":
				case "lastEventId":
					if e.Value().AsInt64() != 4 {
						t.Errorf("watermark %v", e.Value())
					}
				case "lastGeneration":
					if e.Value().AsInt64() != generation {
						t.Errorf("generation %v", e.Value())
					}
				default:
					own = append(own, bson.E{Key: e.Key(), Value: e.Value()})
				}
			}
			got := testkit.Raw(own)
			if string(got) != string(want.Document) {
				t.Fatalf("%s is\n%v\nwant\n%v", events[0].AggregateID, got, want.Document)
			}
		}
		if counts := (&saver{saves: -1}); workers.sweep(t.Context(), j, span{}, counts) != nil || counts.r.counts[CountBehind] != 0 || counts.r.counts[CountAggregates] != aggregates {
			t.Errorf("a sweep counts %v", counts.r.counts)
		}
	}
}
