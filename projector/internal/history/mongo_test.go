package history_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

func insert(t *testing.T, c *mongo.Collection, documents ...any) {
	t.Helper()
	if _, err := c.InsertMany(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
}

func TestListingGivesEveryAggregateOnce(t *testing.T) {
	t.Parallel()
	db := history.Server.Database(t)
	things := []any{bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "_id", Value: bson.D{{Key: "a", Value: 1}}}}}
	sides := []any{bson.D{{Key: "_id", Value: bson.D{{Key: "projection", Value: "p"}, {Key: "aggregateId", Value: ""}}}}}
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("%02d", i)
		want = append(want, id)
		things = append(things, bson.D{{Key: "_id", Value: id}})
		for _, projection := range []string{"o", "p", "q"} {
			key := bson.D{{Key: "projection", Value: projection}, {Key: "aggregateId", Value: id}}
			for _, generation := range []int64{1, 2}[:1+(i+1)%2] {
				sides = append(sides, bson.D{{Key: "_id", Value: append(key[:2:2], bson.E{Key: "generation", Value: generation})}})
			}
		}
	}
	insert(t, db.Collection("things"), things...)
	insert(t, db.Collection("watermarks"), sides...)
	l := history.NewDatabase(db)
	all := func(list func(after string) ([]string, error)) (ids []string) {
		after := ""
		for {
			page, err := list(after)
			if err != nil {
				t.Fatal(err)
			}
			if ids = append(ids, page...); len(page) < 4 {
				return ids
			}
			after = page[len(page)-1]
		}
	}
	u := model.Unit{Projection: "p", Collection: "things"}
	if got := all(func(after string) ([]string, error) { return l.Documents(t.Context(), u, after, 4) }); !slices.Equal(got, want) {
		t.Errorf("documents %v", got)
	}
	if got := all(func(after string) ([]string, error) { return l.Watermarks(t.Context(), u, after, 4) }); !slices.Equal(got, want) {
		t.Errorf("watermarks of the first generation %v", got)
	}
	u.Generation = 2
	if got := all(func(after string) ([]string, error) { return l.Watermarks(t.Context(), u, after, 4) }); len(got) != 13 || got[12] != "24" {
		t.Errorf("watermarks of generation 2 %v", got)
	}
	if got, err := l.Listed(t.Context(), u, []string{"24", "zz", "03"}); err != nil || !slices.Equal(got, []string{"03", "24"}) {
		t.Errorf("listed %v, %v", got, err)
	}
	if odd, err := l.Odd(t.Context(), u, 10); err != nil || len(odd) != 2 {
		t.Errorf("odd %v, %v", odd, err)
	}
}

func TestFindingsAreBoundedInNumber(t *testing.T) {
	t.Parallel()
	s := history.NewFindingStore(history.Server.Database(t))
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 1010 {
		for _, j := range []string{"a", "b"}[:1+i/1009] {
			f := history.Finding{ID: fmt.Sprintf("%s/%04d", j, i), Job: j, AggregateID: fmt.Sprint(i), Kind: history.Different, Differences: []history.Difference{{Path: "n"}}}
			if err := s.Put(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The findings that are not stored count too.
	counts := map[string]int64{string(history.Different): 1010}
	if got, err := s.Recount(t.Context(), "a", counts); err != nil || !maps.Equal(got, counts) {
		t.Errorf("counts %v, %v", got, err)
	}
	found, err := s.List(t.Context(), "a", 2000)
	if err != nil || len(found) != 1000 || found[3].Kind != history.Different || found[3].Differences[0].Path != "n" {
		t.Errorf("%d findings, %v", len(found), err)
	}
	if err := s.Delete(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	for j, want := range map[string]int{"a": 0, "b": 1} {
		// Commands print a list without findings as an empty JSON array.
		if found, err := s.List(t.Context(), j, 10); err != nil || found == nil || len(found) != want {
			t.Errorf("%d findings of %s, %v", len(found), j, err)
		}
	}
}

// A process died after a repair and before its next save, so its range lacks the finding, which is
// stored.
func TestFindingsOfADeadProcessCount(t *testing.T) {
	t.Parallel()
	s := history.NewFindingStore(history.Server.Database(t))
	for _, f := range []history.Finding{
		{ID: "j/a", Job: "j", Kind: history.Different, Repaired: true}, {ID: "j/late", Job: "j", Kind: history.Behind, Undelivered: true},
	} {
		if err := s.Put(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int64{history.CountEvents: 9, string(history.Different): 7}
	want := map[string]int64{history.CountEvents: 9, string(history.Different): 1, history.CountRepaired: 1, string(history.Behind): 1, history.CountUndelivered: 1}
	if got, err := s.Recount(t.Context(), "j", counts); err != nil || !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v; %v", got, want, err)
	}
	if got, err := s.Recount(t.Context(), "another", counts); err != nil || history.Wrong(got) != 0 || got[history.CountEvents] != 9 {
		t.Errorf("counts %v of a job without findings, %v", got, err)
	}
}

// TestDocumentThatIsSetAsideMatchesNoWriter checks the writes of a repair on a server.
func TestDocumentThatIsSetAsideMatchesNoWriter(t *testing.T) {
	t.Parallel()
	for _, generation := range []int64{1, 3} {
		db := history.Server.Database(t)
		things := db.Collection("things")
		u := model.Unit{Projection: "p", Collection: "things", AggregateID: "a", Generation: generation}
		document := bson.D{{Key: "_id", Value: "a"}, {Key: "lastEventId", Value: int64(5)}, {Key: "n", Value: 1}, {Key: "by hand", Value: true}}
		document = append(document, bson.E{Key: "lastGeneration", Value: generation})
		insert(t, things, document)
		r, writer := readmodel.NewRepairer(db), readmodel.NewWriter(db, readmodel.WriterOptions{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = writer.Run(ctx) }()
		replace := func(foreign model.Foreign, kind model.Kind, to int64, document bson.Raw) model.Status {
			written, err := writer.Write(t.Context(), []model.Write{{Unit: u, Kind: kind, To: to, Foreign: &foreign, Document: document}})
			if err != nil {
				t.Fatal(err)
			}
			return written[0].Status
		}
		if ok, err := r.SetAside(t.Context(), u, 4); ok || err != nil {
			t.Errorf("set aside at another watermark: %v, %v", ok, err)
		}
		if ok, err := r.SetAside(t.Context(), u, 5); !ok || err != nil {
			t.Errorf("set aside: %v, %v", ok, err)
		}
		if ok, err := r.SetAside(t.Context(), u, 5); ok || err != nil {
			t.Errorf("set aside twice: %v, %v", ok, err)
		}
		want := testkit.Raw(bson.D{{Key: "n", Value: 2}})
		aside := model.Foreign{Generation: 0, Watermark: 5}
		for _, other := range []model.Foreign{{Generation: 7, Watermark: 5}, {Generation: 0, Watermark: 4}} {
			if status := replace(other, model.Create, 6, want); status != model.Stale {
				t.Errorf("replaced %+v: %v", other, status)
			}
		}
		if status := replace(aside, model.Create, 6, want); status != model.Applied {
			t.Errorf("replaced: %v", status)
		}
		var got bson.Raw
		if err := things.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if got.Lookup("n").AsInt64() != 2 || got.Lookup("lastEventId").AsInt64() != 6 || got.Lookup("by hand").Type != 0 || got.Lookup("lastGeneration").AsInt64() != generation {
			t.Errorf("the document is %s", got)
		}
		// Its events have deleted it.
		if ok, err := r.SetAside(t.Context(), u, 6); !ok || err != nil {
			t.Errorf("set aside: %v, %v", ok, err)
		}
		found, err := readmodel.NewLoader(db, readmodel.LoaderOptions{}).Watermarks(t.Context(), []model.Unit{u})
		if err != nil || found[0].Foreign == nil {
			t.Fatalf("%+v, %v", found, err)
		}
		if status := replace(*found[0].Foreign, model.MoveWatermark, 7, nil); status != model.Applied {
			t.Errorf("deleted: %v", status)
		}
		n, err := things.CountDocuments(t.Context(), bson.D{})
		if err != nil || n != 0 {
			t.Errorf("%d documents, %v", n, err)
		}
		if err := db.Collection("watermarks").FindOne(t.Context(), bson.D{{Key: "_id.aggregateId", Value: "a"}, {Key: "lastEventId", Value: 7}}).Err(); err != nil {
			t.Errorf("the watermark: %v", err)
		}
	}
}
