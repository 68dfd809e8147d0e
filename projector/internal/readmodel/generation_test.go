package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

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
		return model.Write{Unit: u, Kind: model.Create, From: from, To: to, Document: testkit.FromJSON(`{"a":1}`), Foreign: foreign}
	}

	// An older generation reports the newer one, and changes nothing.
	s.apply(t, model.Applied, create(of("newer", 2), 0, 5, nil))
	if state := load(of("newer", 1)); !errors.Is(state.Unavailable, model.ErrSuperseded) {
		t.Errorf("the older generation loads %+v", state)
	}
	s.apply(t, model.Stale, create(of("newer", 1), 0, 5, nil))
	for _, exact := range []bool{false, true} {
		s.apply(t, model.Stale, model.Write{
			Unit: of("newer", 1), Kind: model.Update, From: 5, To: 6, UpdatedAt: load(of("newer", 2)).UpdatedAt, Exact: exact, Update: testkit.FromJSON(`{"$set":{"a":2}}`),
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
			testkit.Raw(bson.D{{Key: "_id", Value: wasView.AggregateID}, {Key: "lastUpdatedAt", Value: bson.DateTime(1)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "parts", Value: int64(1)}}),
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
			testkit.Raw(bson.D{{Key: "_id", Value: isView.AggregateID}, {Key: "lastUpdatedAt", Value: bson.DateTime(1)}, {Key: "lastGeneration", Value: int64(2)}, {Key: "parts", Value: int64(1)}}),
		}); err != nil {
			t.Fatal(err)
		}
		if state := load(isView); !errors.Is(state.Unavailable, model.ErrSuperseded) {
			t.Errorf("a view document of a newer generation loads as %+v", state)
		}
	}
	// The document has an impossible generation.
	if err := db.insert(t.Context(), "things", []bson.Raw{testkit.FromJSON(`{"_id":"generations-odd","lastEventId":1,"lastGeneration":"two"}`)}); err != nil {
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
		for i := range 2500 {
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
		// A call that is interrupted says where another one goes on.
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		reached := testkit.Raw(bson.D{{Key: fieldProjection, Value: "p"}, {Key: fieldAggregateID, Value: "2"}, {Key: fieldGeneration, Value: forgotten}})
		removed, passed, err := Forget(ended, db, "p", forgotten, reached)
		if err == nil || removed != 0 || !bytes.Equal(passed, reached) {
			t.Errorf("interrupted: removed %d up to %s, %v", removed, passed, err)
		}
		later, _, err := Forget(t.Context(), db, "p", forgotten, passed)
		if err != nil || later == 0 || later == 2500 {
			t.Errorf("removed %d, %v", later, err)
		}
		if removed, _, err = Forget(t.Context(), db, "p", forgotten, nil); err != nil || removed+later != 2500 {
			t.Errorf("removed %d and %d, %v", later, removed, err)
		}
		if n, err := db.Collection(watermarksCollection).CountDocuments(t.Context(), bson.D{}); n != 5002 || err != nil {
			t.Errorf("%d watermarks are left, %v", n, err)
		}
		for _, w := range writes[:31] {
			want := int64(7)
			if w.Projection == "p" && w.Number() == forgotten {
				want = 0
			}
			s.expect(t, w.Unit, want, "")
		}
	}
}

func TestForgetAbandonedKeepsTheCurrentGenerations(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := newTestStore(t, onMongo(db))
	var writes []model.Write
	for _, id := range []string{"a", "b"} {
		for _, generation := range []int64{1, 2, 3, 4} {
			u := keyOf(id)
			u.Generation = generation
			writes = append(writes, model.Write{Unit: u, Kind: model.MoveWatermark, To: 7})
		}
	}
	s.apply(t, model.Applied, writes...)
	if removed, err := ForgetAbandoned(t.Context(), db, writes[0].Projection, "a", 3, []int64{2}); err != nil || removed != 2 {
		t.Errorf("removed %d, %v", removed, err)
	}
	for _, w := range writes {
		want := int64(7)
		if w.AggregateID == "a" && (w.Number() == 1 || w.Number() == 3) {
			want = 0
		}
		s.expect(t, w.Unit, want, "")
	}
}
