package readmodel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// testStore is a writer and a loader on one database.
type testStore struct {
	*Writer
	*Loader
}

// tester is a test, or a run of one with drawn values.
type tester interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
}

func newTestStore(t tester, db database) testStore {
	t.Helper()
	s := testStore{newWriter(db, WriterOptions{}), newLoader(db, LoaderOptions{})}
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = s.Writer.Run(ctx) })
	loops.Go(func() { _ = s.Loader.Run(ctx) })
	t.Cleanup(func() { cancel(); loops.Wait() })
	return s
}

func keyOf(aggregate string) model.Unit {
	return model.Unit{Projection: "p", Collection: "things", AggregateID: aggregate}
}

// deletable is a key of a projection that deletes.
func deletable(aggregate string) model.Unit {
	k := keyOf(aggregate)
	k.Deletes = true
	return k
}

// write makes operations.
func (s testStore) write(t *testing.T, operations ...model.Write) []model.Written {
	t.Helper()
	results, err := s.Write(t.Context(), operations)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func (s testStore) apply(t *testing.T, want model.Status, operations ...model.Write) {
	t.Helper()
	for i, r := range s.write(t, operations...) {
		if r.Status != want {
			t.Errorf("%+v: status %d, %v; want %d", operations[i].Unit, r.Status, r.Err, want)
		}
	}
}

// expect loads a key and compares its watermark and own fields; "" for no document.
func (s testStore) expect(t *testing.T, k model.Unit, watermark int64, document string) bson.Raw {
	t.Helper()
	states, err := s.Load(t.Context(), []model.Unit{k})
	if err != nil {
		t.Fatal(err)
	}
	state := states[0]
	if state.Err != nil {
		t.Fatal(state.Err)
	}
	got := ""
	if state.Document != nil {
		var d, own bson.D
		if err := bson.Unmarshal(state.Document, &d); err != nil {
			t.Fatal(err)
		}
		for _, e := range d {
			if e.Key != fieldID && e.Key != model.FieldLastEventID && e.Key != model.FieldLastUpdatedAt && e.Key != model.FieldLastGeneration {
				own = append(own, e)
			}
		}
		text, err := bson.MarshalExtJSON(append(bson.D{}, own...), false, false)
		if err != nil {
			t.Fatal(err)
		}
		got = string(text)
	}
	if state.Watermark != watermark || got != document {
		t.Errorf("%s has watermark %d and %s; want %d and %s", k.AggregateID, state.Watermark, got, watermark, document)
	}
	return state.Document
}

// testContract checks that writes and loads behave as the guards require.
func testContract(t *testing.T, db database) {
	t.Helper()
	t.Run("Update", func(t *testing.T) {
		s, k := newTestStore(t, db), keyOf("update")
		s.expect(t, k, 0, "")
		before := time.Now().Add(-time.Second)
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 3, Document: testkit.FromJSON(`{"a":1,"b":2,"list":[1]}`)})
		raw := s.expect(t, k, 3, `{"a":1,"b":2,"list":[1]}`)
		created := raw.Lookup(model.FieldLastUpdatedAt).Time()
		if created.Before(before) || created.After(time.Now().Add(time.Second)) {
			t.Errorf("created at %s", created)
		}
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Update, From: 3, To: 5, Update: testkit.FromJSON(`{"$set":{"c":3},"$unset":{"b":""},"$push":{"list":{"$each":[2,3]}}}`)})
		s.expect(t, k, 5, `{"a":1,"list":[1,2,3],"c":3}`)
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Update, From: 5, To: 6, Update: testkit.FromJSON(`{"$push":{"list":{"$each":[4]}}}`)})
		changed := s.expect(t, k, 6, `{"a":1,"list":[1,2,3,4],"c":3}`).Lookup(model.FieldLastUpdatedAt).Time()
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Update, From: 6, To: 9})
		if ignored := s.expect(t, k, 9, `{"a":1,"list":[1,2,3,4],"c":3}`).Lookup(model.FieldLastUpdatedAt).Time(); !ignored.Equal(changed) {
			t.Errorf("an ignored event moved the time of the last change from %s to %s", changed, ignored)
		}
		// The guards are too old, too new, and for an absent document.
		s.apply(t, model.Stale,
			model.Write{Unit: k, Kind: model.Update, From: 6, To: 8, Update: testkit.FromJSON(`{"$set":{"a":8}}`)})
		s.apply(t, model.Stale,
			model.Write{Unit: k, Kind: model.Update, From: 11, To: 12, Update: testkit.FromJSON(`{"$set":{"a":8}}`)})
		s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":8}`)})
		s.apply(t, model.Stale, model.Write{Unit: keyOf("nowhere"), Kind: model.Update, From: 1, To: 2, Update: testkit.FromJSON(`{"$set":{"a":8}}`)})
		s.expect(t, k, 9, `{"a":1,"list":[1,2,3,4],"c":3}`)
		// Another writer has reached the same watermark, by the same events.
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Update, From: 8, To: 9, Update: testkit.FromJSON(`{"$set":{"a":8}}`)})
	})
	t.Run("UpdateKeys", func(t *testing.T) {
		s, k := newTestStore(t, db), keyOf("keys")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1,"m":{"x":1,"y":2,"0":3}}`)})
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Update, From: 1, To: 2, Update: testkit.FromJSON(`{"$set":{"m.0":5,"a":2,"m.z":4},"$unset":{"m.x":""}}`)})
		s.expect(t, k, 2, `{"a":2,"m":{"y":2,"0":5,"z":4}}`)
	})
	t.Run("Mixed", func(t *testing.T) {
		s := newTestStore(t, db)
		var create, next []model.Write
		for i := range 40 {
			k := keyOf(fmt.Sprintf("mixed-%d", i))
			create = append(create, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(fmt.Sprintf(`{"i":%d}`, i))})
			next = append(next, model.Write{Unit: k, Kind: model.Update, From: int64(1 + i%4/3), To: 7, Update: testkit.FromJSON(`{"$set":{"n":1}}`)})
		}
		s.apply(t, model.Applied, create...)
		results := s.write(t, next...)
		for i, r := range results {
			want := model.Applied
			if i%4 == 3 {
				want = model.Stale
			}
			if r.Status != want {
				t.Errorf("%d: %v", i, r)
			}
		}
		s.expect(t, keyOf("mixed-2"), 7, `{"i":2,"n":1}`)
		s.expect(t, keyOf("mixed-3"), 1, `{"i":3}`)
		// Half of these exist already.
		for i := range create {
			if i%2 == 0 {
				create[i].AggregateID = fmt.Sprintf("mixed-new-%d", i)
			}
		}
		results = s.write(t, create...)
		for i, r := range results {
			if (i%2 == 0) != (r.Status == model.Applied) || i%2 == 1 && r.Status != model.Stale {
				t.Errorf("%d: %v", i, r)
			}
		}
	})
	t.Run("Watermark", func(t *testing.T) {
		s, k := newTestStore(t, db), keyOf("watermark")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 4})
		s.expect(t, k, 4, "")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, From: 4, To: 6})
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 5})
		s.expect(t, k, 6, "")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, From: 6, To: 7, Document: testkit.FromJSON(`{}`)})
		s.expect(t, k, 7, "{}")
		// Each of two projections has its own watermark.
		other := k
		other.Projection, other.Collection = "q", "others"
		s.expect(t, other, 0, "")
	})
	t.Run("Delete", func(t *testing.T) {
		s, k := newTestStore(t, db), deletable("delete")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)})
		s.expect(t, k, 1, `{"a":1}`)
		s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Delete, From: 2, To: 3})
		s.expect(t, k, 1, `{"a":1}`)
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Delete, From: 1, To: 3})
		s.expect(t, k, 3, "")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Delete, From: 1, To: 3})
		// A writer that loaded the document before the delete cannot bring it back.
		s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)})
		s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Create, From: 2, To: 3, Document: testkit.FromJSON(`{"a":1}`)})
		s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Update, From: 1, To: 2, Update: testkit.FromJSON(`{"$set":{"a":1}}`)})
		s.expect(t, k, 3, "")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, From: 3, To: 5, Document: testkit.FromJSON(`{"a":5}`)})
		s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Create, From: 3, To: 5, Document: testkit.FromJSON(`{"a":5}`)})
		s.expect(t, k, 5, `{"a":5}`)
	})
	t.Run("Creations", func(t *testing.T) {
		// Among many creations in one transaction, some are stale, in both ways.
		s := newTestStore(t, db)
		var operations []model.Write
		want := map[int]model.Status{}
		for i := range 30 {
			k := deletable(fmt.Sprintf("creation-%d", i))
			from := int64(0)
			want[i] = model.Applied
			switch i {
			case 3, 17:
				s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 9})
				want[i] = model.Stale
			case 8:
				s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 2, Document: testkit.FromJSON(`{}`)})
				want[i] = model.Stale
			case 20:
				s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 9})
				from = 9
			}
			operations = append(operations, model.Write{Unit: k, Kind: model.Create, From: from, To: from + 1, Document: testkit.FromJSON(fmt.Sprintf(`{"i":%d}`, i))})
		}
		for i, r := range s.write(t, operations...) {
			if r.Status != want[i] {
				t.Errorf("%d: %v, want %d", i, r, want[i])
			}
		}
		s.expect(t, deletable("creation-29"), 1, `{"i":29}`)
		s.expect(t, deletable("creation-20"), 10, `{"i":20}`)
		s.expect(t, deletable("creation-8"), 2, `{}`)
		s.expect(t, deletable("creation-3"), 9, "")
	})
	t.Run("Erase", func(t *testing.T) {
		s, k := newTestStore(t, db), deletable("erase")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)})
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Erase, To: 3})
		s.expect(t, k, 3, "")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, From: 3, To: 4, Document: testkit.FromJSON(`{"a":4}`)})
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Erase, To: 3})
		s.expect(t, k, 4, `{"a":4}`)
	})
	t.Run("Generations", func(t *testing.T) { testGenerations(t, db) })
	t.Run("Exact", func(t *testing.T) { testExact(t, db) })
	t.Run("Parts", func(t *testing.T) { testParts(t, db) })
	t.Run("ManyKeys", func(t *testing.T) {
		s := newTestStore(t, db)
		var operations []model.Write
		var keys []model.Unit
		for i := range 250 {
			k := keyOf(fmt.Sprintf("many-%d", i))
			k.Collection = fmt.Sprintf("many%d", i%3)
			if i%2 == 0 {
				operations = append(operations, model.Write{Unit: k, Kind: model.Create, To: int64(i + 1), Document: testkit.FromJSON(`{"pad":"` + strings.Repeat("x", 300) + `"}`)})
			} else {
				operations = append(operations, model.Write{Unit: k, Kind: model.MoveWatermark, To: int64(i + 1)})
			}
			keys = append(keys, k, k)
		}
		s.apply(t, model.Applied, operations...)
		states, err := s.Load(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, state := range states {
			if n := i / 2; state.Err != nil || state.Watermark != int64(n+1) || (state.Document != nil) != (n%2 == 0) {
				t.Errorf("%d: %+v", n, state)
			}
		}
	})
	t.Run("TooLarge", func(t *testing.T) {
		s := newTestStore(t, db)
		huge := testkit.Raw(bson.D{{Key: "a", Value: strings.Repeat("x", 16<<20)}})
		k := keyOf("large")
		s.apply(t, model.Rejected, model.Write{Unit: k, Kind: model.Create, To: 1, Document: huge})
		s.expect(t, k, 0, "")
	})
	t.Run("Race", func(t *testing.T) {
		// Many writers change one key, from its creation to its deletion.
		k := deletable("race")
		var writers sync.WaitGroup
		for range 8 {
			s := newTestStore(t, db)
			writers.Go(func() {
				for {
					states, err := s.Load(t.Context(), []model.Unit{k})
					if err != nil {
						t.Error(err)
						return
					}
					state := states[0]
					n := state.Watermark + 1
					if n > 60 {
						return
					}
					o := model.Write{Unit: k, From: state.Watermark, To: n}
					switch {
					case n%5 == 0 && state.Document != nil:
						o.Kind = model.Delete
					case state.Document == nil:
						o.Kind, o.Document = model.Create, testkit.FromJSON(fmt.Sprintf(`{"first":%d,"n":[%d]}`, n, n))
					default:
						o.Kind, o.Update = model.Update, testkit.FromJSON(fmt.Sprintf(`{"$push":{"n":{"$each":[%d]}}}`, n))
					}
					if _, err := s.Write(t.Context(), []model.Write{o}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		newTestStore(t, db).expect(t, k, 60, "")
	})
}

func TestContract(t *testing.T) {
	t.Parallel()
	testContract(t, newDatabase(t))
}
