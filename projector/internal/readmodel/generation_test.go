package readmodel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// generationOne counts the events of an aggregate, and generationTwo lists some of them.
// They create and delete at different events. Without deletes, a deletion is a field.
func generationOne(deletes bool) projection.Func {
	return func(state projection.State, ev *event.Event) (projection.State, error) {
		if ev.EventType == "Cancelled" && deletes {
			return nil, nil
		}
		n := int64(0)
		if state != nil {
			n = state.Lookup("n").Int64()
		}
		return bson.Marshal(bson.D{{Key: "n", Value: n + 1}, {Key: "old", Value: true}})
	}
}

func generationTwo(deletes bool) projection.Func {
	return func(state projection.State, ev *event.Event) (projection.State, error) {
		switch {
		case ev.EventType == "ItemRemoved" && deletes:
			return nil, nil
		case ev.EventType == "Noted", state == nil && ev.EventType == "Broken":
			return state, nil
		}
		ids := ""
		if state != nil {
			ids = state.Lookup("ids").StringValue()
		}
		return bson.Marshal(bson.D{{Key: "ids", Value: fmt.Sprint(ids, ev.EventID, ev.EventType, " ")}})
	}
}

// testGenerations checks the results of single loads and writes if there is a document of
// another generation.
func testGenerations(t *testing.T, db database) {
	t.Helper()
	s := newTestStore(t, db)
	of := func(aggregate string, generation int64) model.Unit {
		u := deletable("generations-" + aggregate)
		u.Generation = generation
		return u
	}
	load := func(u model.Unit) model.State {
		states, err := s.Load(t.Context(), []model.Unit{u})
		if err != nil {
			t.Fatal(err)
		}
		return states[0]
	}
	create := func(u model.Unit, from, to int64, foreign *model.Foreign) model.Write {
		return model.Write{Unit: u, Kind: model.Create, From: from, To: to, Document: bsontest.FromJSON(`{"a":1}`), Foreign: foreign}
	}

	// The first generation can be 0 or 1.
	s.apply(t, model.Applied, create(of("first", 0), 0, 3, nil))
	if raw := s.expect(t, of("first", 1), 3, `{"a":1}`); raw.Lookup(model.FieldLastGeneration).Type != 0 {
		t.Errorf("a document of the first generation names it: %s", raw)
	}
	// An older generation reports the newer one, and changes nothing.
	s.apply(t, model.Applied, create(of("newer", 2), 0, 5, nil))
	if state := load(of("newer", 1)); !errors.Is(state.Unavailable, model.ErrSuperseded) {
		t.Errorf("the older generation loads %+v", state)
	}
	s.apply(t, model.Stale, create(of("newer", 1), 0, 5, nil))
	for _, exact := range []bool{false, true} {
		s.apply(t, model.Stale, model.Write{
			Unit: of("newer", 1), Kind: model.Update, From: 5, To: 6, UpdatedAt: load(of("newer", 2)).UpdatedAt, Exact: exact, Update: bsontest.FromJSON(`{"$set":{"a":2}}`),
		})
	}
	s.apply(t, model.Stale, model.Write{Unit: of("newer", 1), Kind: model.Delete, From: 5, To: 6})
	s.apply(t, model.Applied, model.Write{Unit: of("newer", 1), Kind: model.Erase, From: 6, To: 9})
	if raw := s.expect(t, of("newer", 2), 5, `{"a":1}`); raw.Lookup(model.FieldLastGeneration).AsInt64() != 2 {
		t.Errorf("the document of the second generation is %s", raw)
	}
	// To a newer generation, an older document is absent, and the side watermark counts.
	older, newer := of("older", 1), of("older", 3)
	s.apply(t, model.Applied, create(older, 0, 7, nil), model.Write{Unit: newer, Kind: model.MoveWatermark, To: 4})
	state := load(newer)
	if state.Document != nil || state.Watermark != 4 || state.Foreign == nil || *state.Foreign != (model.Foreign{Generation: 1, Watermark: 7, UpdatedAt: state.Foreign.UpdatedAt}) || state.Foreign.UpdatedAt == 0 {
		t.Fatalf("the newer generation loads %+v, %+v", state, state.Foreign)
	}
	s.apply(t, model.Stale, create(newer, 4, 8, nil))
	s.apply(t, model.Stale, create(newer, 4, 8, &model.Foreign{Generation: 1, Watermark: 6}))
	s.apply(t, model.Stale, model.Write{Unit: newer, Kind: model.MoveWatermark, From: 4, To: 4, Foreign: &model.Foreign{Generation: 2, Watermark: 7}})
	s.expect(t, older, 7, `{"a":1}`)
	s.apply(t, model.Applied, create(newer, 4, 8, state.Foreign))
	s.expect(t, newer, 8, `{"a":1}`)
	// A delete is applied although an older generation has created a document.
	again := of("again", 2)
	s.apply(t, model.Applied, create(of("again", 1), 0, 2, nil))
	s.apply(t, model.Applied, model.Write{Unit: again, Kind: model.Delete, From: 3, To: 4})
	if state := load(again); state.Watermark != 4 || state.Foreign == nil {
		t.Errorf("after the delete, the newer generation loads %+v", state)
	}
	// The foreign document is removed although there is no event to fold.
	s.apply(t, model.Applied, model.Write{Unit: again, Kind: model.MoveWatermark, From: 4, To: 4, Foreign: &model.Foreign{Generation: 1, Watermark: 2}})
	if state := load(again); state.Watermark != 4 || state.Foreign != nil {
		t.Errorf("after the removal, the newer generation loads %+v", state)
	}
	// The projection was a view, or has become one.
	for _, of := range []func(string, int64) model.Unit{of, func(aggregate string, generation int64) model.Unit {
		u := keyOf("generations-kept-" + aggregate)
		u.Generation = generation
		return u
	}} {
		wasView := of("view", 2)
		if err := db.insert(t.Context(), "things", []bson.Raw{
			bsontest.Raw(bson.D{{Key: "_id", Value: wasView.AggregateID}, {Key: "lastUpdatedAt", Value: bson.DateTime(1)}, {Key: "parts", Value: int64(1)}}),
		}); err != nil {
			t.Fatal(err)
		}
		if state := load(of("view", 1)); !errors.Is(state.Err, errNoReadModel) {
			t.Errorf("a view document of the same generation loads as %+v", state)
		}
		state := load(wasView)
		if state.Err != nil || state.Foreign == nil {
			t.Fatalf("a view document of an older generation loads as %+v", state)
		}
		s.apply(t, model.Stale, create(wasView, 0, 3, nil))
		s.apply(t, model.Stale, create(wasView, 0, 3, &model.Foreign{Generation: 1, Watermark: 0}))
		s.apply(t, model.Applied, create(wasView, 0, 3, state.Foreign))
		s.expect(t, wasView, 3, `{"a":1}`)
		isView := of("later", 1)
		if err := db.insert(t.Context(), "things", []bson.Raw{
			bsontest.Raw(bson.D{{Key: "_id", Value: isView.AggregateID}, {Key: "lastUpdatedAt", Value: bson.DateTime(1)}, {Key: "lastGeneration", Value: int64(2)}, {Key: "parts", Value: int64(1)}}),
		}); err != nil {
			t.Fatal(err)
		}
		if state := load(isView); !errors.Is(state.Unavailable, model.ErrSuperseded) {
			t.Errorf("a view document of a newer generation loads as %+v", state)
		}
	}
	// The document has an impossible generation.
	if err := db.insert(t.Context(), "things", []bson.Raw{bsontest.FromJSON(`{"_id":"generations-odd","lastEventId":1,"lastGeneration":"two"}`)}); err != nil {
		t.Fatal(err)
	}
	if state := load(of("odd", 2)); !errors.Is(state.Err, errNoGeneration) {
		t.Errorf("a document of no generation loads as %+v", state)
	}
}

// TestForgetDeletesOneGeneration checks that the watermarks of one generation of one
// projection are deleted, and no others.
func TestForgetDeletesOneGeneration(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []int64{1, 2} {
		db := server.Database(t)
		s := newTestStore(t, onMongo(db))
		other := keyOf("0")
		other.Projection = "p2"
		writes := []model.Write{{Unit: other, Kind: model.MoveWatermark, To: 7}}
		for i := range 1500 {
			for _, generation := range []int64{0, 2, 3} {
				u := keyOf(fmt.Sprint(i))
				u.Generation = generation
				writes = append(writes, model.Write{Unit: u, Kind: model.MoveWatermark, To: 7})
			}
		}
		s.apply(t, model.Applied, writes...)
		// An earlier version has recorded the projection.
		if _, err := db.Collection(watermarksCollection).InsertOne(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: fieldProjection, Value: "p"}, {Key: fieldAggregateID, Value: ""}}}}); err != nil {
			t.Fatal(err)
		}
		removed, err := Forget(t.Context(), db, "p", forgotten)
		if err != nil || removed != 1500 {
			t.Errorf("removed %d, %v", removed, err)
		}
		if n, err := db.Collection(watermarksCollection).CountDocuments(t.Context(), bson.D{}); n != 3002 || err != nil {
			t.Errorf("%d watermarks are left, %v", n, err)
		}
		for _, w := range writes[:31] {
			want := int64(7)
			if w.Projection == "p" && generation(&w.Unit) == forgotten {
				want = 0
			}
			s.expect(t, w.Unit, want, "")
		}
	}
}

// rebuilt is a projection with two generations, and the pods that write both. The second
// generation is built in a shadow collection and then promoted.
type rebuilt struct {
	db        *fakeDatabase
	histories [][]*event.Event
	// folds are the definitions by generation.
	folds    map[int64]*projection.Projection
	promoted bool
}

const shadow = "things.generation-2"

// writer is a pod. It loads and folds in one step and writes in another, so that any
// number of things can happen in between, as if it had been suspended.
type writer struct {
	testStore
	// stale pods do not read of the promotion.
	stale bool
	held  map[model.Unit]model.Write
}

// units returns the units that the pod writes for an aggregate.
func (r *rebuilt) units(w *writer, aggregate string) []model.Unit {
	unit := model.Unit{Projection: "p", Collection: "things", AggregateID: aggregate, Deletes: r.folds[1].Deletes()}
	second := unit
	second.Generation = 2
	if r.promoted && !w.stale {
		return []model.Unit{second}
	}
	second.Collection = shadow
	return []model.Unit{unit, second}
}

// step takes a unit one step further: it folds the next events after its watermark, at
// most `most` of them, or writes the result of the last fold.
func (r *rebuilt) step(t *rapid.T, w *writer, u model.Unit, history []*event.Event, most int) {
	if held, ok := w.held[u]; ok {
		delete(w.held, u)
		before := r.second()
		if _, err := w.Write(t.Context(), []model.Write{held}); err != nil {
			t.Fatal(err)
		}
		if after := r.second(); w.stale && r.promoted && !maps.EqualFunc(before, after, func(a, b bson.Raw) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("a stale pod changed the promoted documents by %+v\nfrom %v\nto   %v", held, before, after)
		}
		return
	}
	states, err := w.Load(t.Context(), []model.Unit{u})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Release(states)
	state := states[0]
	if state.Err != nil || state.Unavailable != nil {
		if state.Err != nil || !w.stale && state.Document == nil && r.db.lost == 0 && r.db.unanswered == 0 {
			t.Fatal(state.Err, state.Unavailable)
		}
		return
	}
	var next []*event.Event
	for _, ev := range history {
		if ev.EventID > state.Watermark && len(next) < most {
			next = append(next, ev)
		}
	}
	if len(next) == 0 {
		return
	}
	fold := r.folds[generation(&u)].Fold(state.Document, next)
	w.held[u] = model.Write{
		Unit: u, Kind: fold.Kind, From: state.Watermark, To: next[len(next)-1].EventID,
		Document: fold.Document, Update: fold.Update, Foreign: state.Foreign,
	}
}

// second returns the documents of the second generation under the live name.
func (r *rebuilt) second() map[string]bson.Raw {
	found := r.db.documents("things")
	maps.DeleteFunc(found, func(_ string, document bson.Raw) bool {
		g, _ := generationOf(document)
		return g != 2
	})
	return found
}

// promote replaces the live collection by the shadow. The pods that take part have no
// write in flight.
func (r *rebuilt) promote(t *rapid.T, writers []*writer) {
	for _, w := range writers {
		if w.stale {
			continue
		}
		for _, u := range slices.Collect(maps.Keys(w.held)) {
			r.step(t, w, u, nil, 0)
		}
	}
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	r.db.collections["things"] = r.db.collections[shadow]
	delete(r.db.collections, shadow)
	r.promoted = true
}

// TestGenerationsDoNotTouchEachOther lets pods write before, during and after a
// promotion. Some of the pods never read of it. A stale pod changes no document of the
// new generation. If it creates a document under the live name, the aggregate's next
// event replaces that document.
func TestGenerationsDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		deletes := rapid.Bool().Draw(t, "deletes")
		r := &rebuilt{db: newFakeDatabase(s.seed), histories: s.histories, folds: map[int64]*projection.Projection{}}
		for g, apply := range map[int64]projection.Func{1: generationOne(deletes), 2: generationTwo(deletes)} {
			p, err := projection.New(projection.Declaration{Name: "p", Collection: "things", Deletes: deletes, Apply: apply})
			if err != nil {
				t.Fatal(err)
			}
			r.folds[g] = p
		}
		var writers []*writer
		for i := range 4 {
			writers = append(writers, &writer{testStore: newTestStore(t, r.db), stale: i >= 2, held: map[model.Unit]model.Write{}})
		}
		r.db.lost, r.db.unanswered = s.lost, s.unanswered
		steps := rapid.IntRange(5, 120).Draw(t, "steps")
		promotion := rapid.IntRange(0, steps-1).Draw(t, "promotion")
		for i := range steps {
			if i == promotion {
				r.promote(t, writers)
			}
			w := writers[rapid.IntRange(0, len(writers)-1).Draw(t, "pod")]
			history := r.histories[rapid.IntRange(0, len(r.histories)-1).Draw(t, "history")]
			u := rapid.SampledFrom(r.units(w, history[0].AggregateID)).Draw(t, "unit")
			r.step(t, w, u, history[:len(history)-1], rapid.IntRange(1, 4).Draw(t, "most"))
		}
		r.db.lost, r.db.unanswered = 0, 0
		live := writers[0]
		for _, history := range r.histories {
			u := r.units(live, history[0].AggregateID)[0]
			for range 20 {
				r.step(t, live, u, history, 5)
			}
			r.compare(t, u, history)
		}
	})
}

// compare compares an aggregate with the fold of its whole history.
func (r *rebuilt) compare(t *rapid.T, u model.Unit, history []*event.Event) {
	fold := r.folds[2].Fold(nil, history)
	document, side := r.db.documents("things")[u.AggregateID], r.db.documents(watermarksCollection)["p/"+u.AggregateID+"/2"]
	if (document != nil) != (fold.State() != nil) {
		t.Fatalf("got %s, want %s", document, fold.State())
	}
	last := history[len(history)-1].EventID
	if watermark, _ := watermarkOf(either(document, side)); watermark != last {
		t.Fatalf("watermark %d, want %d: %s, %s", watermark, last, document, side)
	}
	if document == nil {
		return
	}
	if g, _ := generationOf(document); g != 2 {
		t.Fatalf("generation %d: %s", g, document)
	}
	if got, want := document.Lookup("ids"), fold.State().Lookup("ids"); !got.Equal(want) || document.Lookup("old").Type != 0 {
		t.Fatalf("got %s, want %s", document, fold.State())
	}
}
