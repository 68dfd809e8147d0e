package memory_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/memory"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// listing is a view whose documents list the aggregates of their parts. It computes a document
// from all parts if one leaves it.
type listing struct{ wholes int }

var errListing = errors.New("no document can have it")

func (*listing) Keys(part bson.Raw) []string {
	if key, ok := part.Lookup("key").StringValueOK(); ok {
		return []string{key}
	}
	return nil
}

func (v *listing) Split(part bson.Raw) map[string]bson.Raw {
	split := map[string]bson.Raw{}
	for _, key := range v.Keys(part) {
		split[key] = part
	}
	return split
}

func (v *listing) Merge(key string, document bson.Raw, changes []model.PartChange) (bson.Raw, bool, error) {
	var ids []string
	if document != nil {
		if err := document.Lookup("ids").Unmarshal(&ids); err != nil {
			return nil, false, err
		}
	}
	for _, c := range changes {
		switch after := slices.Contains(v.Keys(c.After), key); {
		case c.AggregateID == "refused":
			return nil, false, errListing
		case slices.Contains(v.Keys(c.Before), key) && !after:
			return nil, false, nil
		case after && !slices.Contains(ids, c.AggregateID):
			ids = append(ids, c.AggregateID)
		}
	}
	next, err := listed(ids)
	return next, true, err
}

func (*listing) Fullness(bson.Raw) float64 { return 0 }

func (v *listing) Begin(string) model.ViewFold {
	v.wholes++
	return &listingFold{}
}

// listingFold collects the aggregates of a document.
type listingFold struct{ ids []string }

func (f *listingFold) Add(p model.Part) error {
	f.ids = append(f.ids, p.AggregateID)
	return nil
}

func (f *listingFold) Document() (bson.Raw, error) { return listed(f.ids) }

func listed(ids []string) (bson.Raw, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	return bson.Marshal(bson.D{{Key: model.FieldParts, Value: len(ids)}, {Key: "ids", Value: ids}})
}

// partsOf writes parts of a view into stores.
type partsOf struct {
	t      *testing.T
	stores *memory.Stores
	view   listing
}

// write folds an event that gives the aggregate's part a key; empty for no part. from is the
// watermark of the folded state.
func (p *partsOf) write(aggregateID string, generation, from, updatedAt int64, key string) model.Written {
	p.t.Helper()
	w := model.Write{
		Unit: model.Unit{Projection: "p", Generation: generation, Collection: "c", AggregateID: aggregateID, Parts: true},
		Kind: model.Update, From: from, To: from + 1, UpdatedAt: updatedAt, View: &p.view,
	}
	if key != "" {
		w.Document = bsontest.Raw(bson.D{{Key: "key", Value: key}})
	}
	written, err := p.stores.Write(p.t.Context(), []model.Write{w})
	if err != nil {
		p.t.Fatal(err)
	}
	return written[0]
}

// has expects exactly these documents of the view, as their keys and their lists.
func (p *partsOf) has(want map[string]string) {
	p.t.Helper()
	found := p.stores.Documents("c")
	for key, document := range found {
		if got := document.String(); want[key] == "" || !strings.Contains(got, want[key]) {
			p.t.Errorf("document %s is %s, want %q", key, got, want[key])
		}
	}
	if len(found) != len(want) {
		p.t.Errorf("there are %d documents, want %d", len(found), len(want))
	}
}

// TestPartsMoveBetweenDocuments checks that a write changes the part and its documents
// together, under the guard of the part.
func TestPartsMoveBetweenDocuments(t *testing.T) {
	t.Parallel()
	p := partsOf{t: t, stores: memory.New()}
	first := p.write("a", 0, 0, 0, "x")
	p.write("b", 0, 0, 0, "x")
	p.has(map[string]string{"x": `"ids": ["a","b"]`})
	if got := p.write("a", 0, 0, 0, "y"); got.Status != model.Applied || got.UpdatedAt != 0 {
		t.Errorf("a writer of the same event gets %+v", got)
	}
	for _, stale := range []struct{ from, updatedAt int64 }{{1, 0}, {5, first.UpdatedAt}, {1, first.UpdatedAt + 1}} {
		if got := p.write("a", 0, stale.from, stale.updatedAt, "y"); got.Status != model.Stale {
			t.Errorf("a writer of another state gets %+v", got)
		}
	}
	p.has(map[string]string{"x": `"ids": ["a","b"]`})
	second := p.write("a", 0, 1, first.UpdatedAt, "y")
	if second.Status != model.Applied || second.UpdatedAt <= first.UpdatedAt {
		t.Errorf("the move is %+v", second)
	}
	p.has(map[string]string{"x": `"ids": ["b"]`, "y": `"ids": ["a"]`})
	if p.view.wholes != 1 {
		t.Errorf("%d documents were computed from all parts", p.view.wholes)
	}
	p.write("a", 0, 2, second.UpdatedAt, "")
	p.has(map[string]string{"x": `"ids": ["b"]`})
	if got := p.write("refused", 0, 0, 0, "x"); got.Status != model.Rejected || !errors.Is(got.Err, errListing) {
		t.Errorf("a part that the view refuses gets %+v", got)
	}
	states, err := p.stores.Load(t.Context(), []model.Unit{{Projection: "p", Collection: "c", AggregateID: "a", Parts: true}, {Projection: "p", Collection: "c", AggregateID: "refused", Parts: true}})
	if err != nil || states[0].Watermark != 3 || states[0].Document != nil || states[1].Watermark != 0 {
		t.Errorf("the states are %+v, %v", states, err)
	}
}

// TestDocumentsOfAnotherGeneration checks that a document of an older generation counts as
// absent, and that one of a newer generation is not written.
func TestDocumentsOfAnotherGeneration(t *testing.T) {
	t.Parallel()
	p := partsOf{t: t, stores: memory.New()}
	p.write("a", 1, 0, 0, "x")
	p.write("b", 2, 0, 0, "x")
	p.has(map[string]string{"x": `"lastGeneration": {"$numberLong":"2"},"parts": {"$numberInt":"1"},"ids": ["b"]`})
	if got := p.write("c", 1, 0, 0, "x"); got.Status != model.Unknown || !errors.Is(got.Err, model.ErrSuperseded) {
		t.Errorf("a writer of the older generation gets %+v", got)
	}
	p.has(map[string]string{"x": `"ids": ["b"]`})
	if parts := p.stores.Parts("p", 1); len(parts) != 1 || parts["a"] == nil {
		t.Errorf("the parts of the older generation are %v", parts)
	}
}

// TestCrashKeepsThePartWithItsDocuments checks that a crash divides no write of a part.
func TestCrashKeepsThePartWithItsDocuments(t *testing.T) {
	t.Parallel()
	p := partsOf{t: t, stores: memory.New()}
	p.stores.CrashAfterWrites()
	w := model.Write{Unit: model.Unit{Projection: "p", Collection: "c", AggregateID: "a", Parts: true}, Kind: model.Create, To: 1, View: &p.view, Document: bsontest.Raw(bson.D{{Key: "key", Value: "x"}})}
	if _, err := p.stores.Write(t.Context(), []model.Write{w}); !errors.Is(err, memory.ErrCrashed) {
		t.Fatalf("the write ends with %v", err)
	}
	p.has(map[string]string{"x": `"ids": ["a"]`})
	p.stores.Restart()
	if written, err := p.stores.Write(t.Context(), []model.Write{w}); err != nil || written[0].Status != model.Applied {
		t.Errorf("the repeated write is %+v, %v", written, err)
	}
	p.has(map[string]string{"x": `"ids": ["a"]`})
}
