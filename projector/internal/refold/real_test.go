package refold

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// TestBuildWithTheRealPartsEqualsTheFold folds a store over the wire protocol, and
// compares each document with the fold of its events in one piece.
func TestBuildWithTheRealPartsEqualsTheFold(t *testing.T) {
	t.Parallel()
	for _, generation := range []int64{1, 2} {
		p := newParts(t, generation)
		const aggregates = 3000
		p.load(t, aggregates)
		workers, err := New(Options{Source: p.reader, Targets: p, Store: p, Parking: p, Follower: p})
		if err != nil {
			t.Fatal(err)
		}
		ranges, total, err := workers.Plan(t.Context(), testJob)
		if err != nil || total != 4*aggregates || len(ranges) < 32 {
			t.Fatalf("%d ranges, total %d, %v", len(ranges), total, err)
		}
		eachRange(t, ranges, func(ctx context.Context, r Range) error {
			return workers.Build(ctx, testJob, r, &saver{saves: -1})
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
				raw, err := bson.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				ev, err := p.reader.Read(raw)
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
					if e.Value().AsInt64() != generation || generation == 1 {
						t.Errorf("generation %v", e.Value())
					}
				default:
					own = append(own, bson.E{Key: e.Key(), Value: e.Value()})
				}
			}
			got, err := bson.Marshal(own)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want.Document) {
				t.Fatalf("%s is\n%v\nwant\n%v", events[0].AggregateID, bson.Raw(got), want.Document)
			}
		}
		if counts := (&saver{saves: -1}); workers.Sweep(t.Context(), testJob, Range{}, counts) != nil || counts.r.Counts[CountBehind] != 0 || counts.r.Counts[CountAggregates] != aggregates {
			t.Errorf("a sweep counts %v", counts.r.Counts)
		}
	}
}
