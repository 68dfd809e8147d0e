package history

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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

// TestSweepRemovesADocumentOfAnOlderGenerationFromTheServer: a writer of an older
// generation has created a document for an aggregate that the target's events have
// deleted. The sweep removes that document. The target's own documents and the watermarks
// stay.
func TestSweepRemovesADocumentOfAnOlderGenerationFromTheServer(t *testing.T) {
	t.Parallel()
	p := newParts(t, 2)
	p.load(t, 2)
	workers := New(Options{Events: p.reader, Targets: p.targets, Store: p, Repairer: p, Parking: p, Engine: p})
	if err := workers.build(t.Context(), testJob, span{}, &saver{saves: -1}); err != nil {
		t.Fatal(err)
	}
	models := p.database.Collection("orders.generation-2")
	own, err := models.FindOne(t.Context(), bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: 1}})).Raw()
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := models.FindOneAndDelete(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: own.Lookup("_id")}}}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	side := bson.D{
		{Key: "_id", Value: bson.D{{Key: "projection", Value: "orders"}, {Key: "aggregateId", Value: deleted.Lookup("_id")}, {Key: "generation", Value: int64(2)}}},
		{Key: "lastEventId", Value: deleted.Lookup("lastEventId")},
	}
	if _, err := p.database.Collection("watermarks").InsertOne(t.Context(), side); err != nil {
		t.Fatal(err)
	}
	if _, err := models.InsertOne(t.Context(), bson.D{{Key: "_id", Value: deleted.Lookup("_id")}, {Key: "lastEventId", Value: int64(1)}, {Key: "lastGeneration", Value: int64(1)}}); err != nil {
		t.Fatal(err)
	}
	for _, behind := range []int64{1, 0} {
		s := &saver{saves: -1}
		if err := workers.sweep(t.Context(), testJob, span{}, s); err != nil {
			t.Fatal(err)
		}
		wantCounts(t, s.r.counts, map[string]int64{CountAggregates: 2, CountBehind: behind})
	}
	left, err := models.Find(t.Context(), bson.D{})
	var documents []bson.Raw
	if err := errors.Join(err, left.All(t.Context(), &documents)); err != nil || len(documents) != 1 || !bytes.Equal(documents[0], own) {
		t.Errorf("left %v, %v", documents, err)
	}
	if n, err := p.database.Collection("watermarks").CountDocuments(t.Context(), side); n != 1 || err != nil {
		t.Errorf("%d watermarks, %v", n, err)
	}
}
