package readmodel

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// to is an amount for a document.
func to(key string, cents int64) testAmount { return testAmount{key, cents} }

// ofView is a unit of a view of its own.
func ofView(view string) func(string) model.Unit {
	return func(aggregate string) model.Unit {
		u := viewUnit(aggregate)
		u.Projection, u.Collection = view, view
		return u
	}
}

// testParts checks the results of single writes of parts.
func testParts(t *testing.T, db database) {
	t.Helper()
	t.Run("Guard", func(t *testing.T) {
		s, u := newTestStore(t, db), ofView("guard")("a")
		part := partWith("x", to("k", 5))
		results, err := s.Write(t.Context(), []model.Write{partWrite(u, model.State{}, 3, part)})
		if err != nil || results[0].Status != model.Applied {
			t.Fatal(results, err)
		}
		first := s.state(t, u)
		if first.Watermark != 3 || first.Document.String() != part.String() || first.UpdatedAt == 0 || first.UpdatedAt != results[0].UpdatedAt {
			t.Errorf("state %+v after %+v", first, results)
		}
		expectWhole(t, db, u).expectDocument(t, "k", `{"sum":5,"max":5,"notes":{"a":"x"}}`)
		// A writer that folded the same events was faster, or this write is repeated.
		results, err = s.Write(t.Context(), []model.Write{partWrite(u, model.State{}, 3, part)})
		if err != nil || results[0] != (model.Written{Status: model.Applied}) {
			t.Errorf("repeated: %+v, %v", results, err)
		}
		// The guards are too old, too new, of an absent unit, and of another content with the same watermark.
		other := partWith("other", to("k", 9))
		s.apply(t, model.Stale,
			partWrite(u, model.State{}, 2, other),
			partWrite(u, model.State{Watermark: 3, UpdatedAt: first.UpdatedAt - 1}, 4, other),
			partWrite(ofView("guard")("b"), model.State{Watermark: 1, UpdatedAt: 7}, 2, other))
		s.apply(t, model.Stale, partWrite(u, model.State{Watermark: 4, UpdatedAt: first.UpdatedAt}, 5, other))
		expectWhole(t, db, u).expectDocument(t, "k", `{"sum":5,"max":5,"notes":{"a":"x"}}`)
		// The watermark alone does not touch the document.
		before := expectWhole(t, db, u).documents["k"]
		s.put(t, u, 7, part)
		second := s.state(t, u)
		if after := expectWhole(t, db, u).documents["k"]; after.String() != before.String() || second.Watermark != 7 || second.UpdatedAt <= first.UpdatedAt {
			t.Errorf("%s became %s, with %+v", before, after, second)
		}
		// A repair may replace a part and keep the watermark.
		s.apply(t, model.Applied, partWrite(u, second, 7, other))
		s.apply(t, model.Stale, partWrite(u, second, 7, part))
		now := expectWhole(t, db, u)
		now.expectDocument(t, "k", `{"sum":9,"max":9,"notes":{"a":"other"}}`)
		if after := updatedAt(now.documents["k"]); after <= updatedAt(before) {
			t.Errorf("lastUpdatedAt %d after %d", after, updatedAt(before))
		}
	})
	t.Run("KeysAndDeletion", func(t *testing.T) {
		s, unit := newTestStore(t, db), ofView("keys")
		s.put(t, unit("a"), 1, partWith("x", to("k", 5), to("l", 3)))
		s.put(t, unit("b"), 1, partWith("y", to("k", 2)))
		now := expectWhole(t, db, unit(""))
		now.expectDocument(t, "k", `{"sum":7,"max":5,"notes":{"a":"x","b":"y"}}`)
		now.expectDocument(t, "l", `{"sum":3,"max":3,"notes":{"a":"x"}}`)
		s.put(t, unit("a"), 2, partWith("x", to("m", 5))) // the part moves
		now = expectWhole(t, db, unit(""))
		now.expectDocument(t, "k", `{"sum":2,"max":2,"notes":{"b":"y"}}`)
		now.expectDocument(t, "l", "")
		now.expectDocument(t, "m", `{"sum":5,"max":5,"notes":{"a":"x"}}`)
		s.put(t, unit("a"), 3, partWith("no document"))
		s.put(t, unit("b"), 4, nil)
		if now := expectWhole(t, db, unit("")); len(now.documents) != 0 || now.parts["b"].Lookup(fieldPart).Type != 0 {
			t.Errorf("left: %v, %v", now.documents, now.parts)
		}
		if state := s.state(t, unit("b")); state.Document != nil || state.Watermark != 4 || state.UpdatedAt == 0 {
			t.Errorf("a deleted part loads as %+v", state)
		}
		s.put(t, unit("b"), 5, partWith("z", to("k", 2)))
		expectWhole(t, db, unit("")).expectDocument(t, "k", `{"sum":2,"max":2,"notes":{"b":"z"}}`)
	})
	t.Run("WholeWithChangesOfTheGroup", func(t *testing.T) {
		s, unit := newTestStore(t, db), ofView("whole")
		for i, cents := range []int64{9, 8, 7, 1} {
			s.put(t, unit(fmt.Sprint(i)), 1, partWith("x", to("k", cents)))
		}
		s.put(t, unit("other"), 1, partWith("x", to("l", 6)))
		// The highest part leaves, the second becomes small, another joins.
		s.apply(t, model.Applied,
			partWrite(unit("0"), s.state(t, unit("0")), 2, nil),
			partWrite(unit("1"), s.state(t, unit("1")), 2, partWith("y", to("k", 2))),
			partWrite(unit("other"), s.state(t, unit("other")), 2, partWith("z", to("k", 3))),
			partWrite(unit("new"), model.State{}, 1, partWith("n", to("k", 4))))
		now := expectWhole(t, db, unit(""))
		now.expectDocument(t, "k", `{"sum":17,"max":7,"notes":{"1":"y","2":"x","3":"x","new":"n","other":"z"}}`)
		now.expectDocument(t, "l", "")
	})
	t.Run("RefusedByTheView", func(t *testing.T) {
		s, unit := newTestStore(t, db), ofView("refused")
		var writes []model.Write
		for i := range 9 {
			writes = append(writes, partWrite(unit(fmt.Sprint(i)), model.State{}, 1, partWith("x", to("k", 1), to(fmt.Sprint(i), 1))))
		}
		writes[5].Document = partWith("x", to("k", sumsLimit))
		results := s.write(t, writes...)
		for i, r := range results {
			if want := i != 5; want != (r.Status == model.Applied) || !want && (r.Status != model.Rejected || !errors.Is(r.Err, errSum)) {
				t.Errorf("%d: %+v", i, r)
			}
		}
		expectWhole(t, db, unit("")).expectDocument(t, "k", `{"sum":8,"max":1,"notes":{"0":"x","1":"x","2":"x","3":"x","4":"x","6":"x","7":"x","8":"x"}}`)
	})
	t.Run("OtherDocuments", func(t *testing.T) {
		s, unit := newTestStore(t, db), ofView("others")
		second := func(aggregate string) model.Unit { u := unit(aggregate); u.Generation = 2; return u }
		if err := db.insert(t.Context(), "others", []bson.Raw{
			testkit.FromJSON(`{"_id":"theirs","a":1}`), testkit.FromJSON(`{"_id":"odd","lastEventId":1,"lastGeneration":"two"}`), testkit.FromJSON(`{"_id":"readmodel","lastEventId":1,"lastGeneration":2}`),
			testkit.Raw(bson.D{{Key: "_id", Value: "newer"}, {Key: "lastUpdatedAt", Value: time.Now()}, {Key: "lastGeneration", Value: int64(3)}, {Key: "parts", Value: int64(1)}}),
			testkit.Raw(bson.D{{Key: "_id", Value: "older"}, {Key: "lastUpdatedAt", Value: time.Now().Add(time.Hour)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "parts", Value: int64(4)}, {Key: "sum", Value: int64(1)}}),
			testkit.FromJSON(`{"_id":"oldest","lastEventId":1,"lastGeneration":0}`),
		}); err != nil {
			t.Fatal(err)
		}
		var writes []model.Write
		for _, key := range []string{"theirs", "odd", "readmodel", "newer", "older", "oldest"} {
			writes = append(writes, partWrite(second(key), model.State{}, 1, partWith("x", to(key, 1), to("common", 2))))
		}
		results := s.write(t, writes...)
		for i, want := range []struct {
			status model.Status
			err    error
		}{{model.Rejected, errNoViewDocument}, {model.Rejected, errNoGeneration}, {model.Rejected, errNoViewDocument}, {model.Unknown, model.ErrSuperseded}, {model.Applied, nil}, {model.Applied, nil}} {
			if r := results[i]; r.Status != want.status || !errors.Is(r.Err, want.err) {
				t.Errorf("%s: %+v, want %+v", writes[i].AggregateID, r, want)
			}
		}
		now, err := readView(t.Context(), db, second(""))
		if err != nil || len(now.documents) != 7 || len(now.parts) != 2 {
			t.Errorf("%+v, %v", now, err)
		}
		now.expectDocument(t, "older", `{"sum":1,"max":1,"notes":{"older":"x"}}`)
		now.expectDocument(t, "oldest", `{"sum":1,"max":1,"notes":{"oldest":"x"}}`)
		now.expectDocument(t, "common", `{"sum":4,"max":2,"notes":{"older":"x","oldest":"x"}}`)
		for key, want := range map[string]int64{"newer": 3, "older": 2} {
			if g, _ := generationOf(now.documents[key]); g != want {
				t.Errorf("%s has generation %d", key, g)
			}
		}
		if at := now.documents["older"].Lookup(model.FieldLastUpdatedAt).Time(); time.Until(at) < 50*time.Minute {
			t.Errorf("lastUpdatedAt of a replaced document fell to %s", at)
		}
		// A document of an older generation goes with the last part, too.
		s.put(t, second("older"), 2, nil)
		if now, err := readView(t.Context(), db, second("")); err != nil || now.documents["older"] != nil {
			t.Errorf("%v, %v", now.documents, err)
		}
	})
	t.Run("Records", func(t *testing.T) {
		s, unit := newTestStore(t, db), ofView("records")
		plain := keyOf("a")
		s.put(t, unit("a"), 3, partWith("x", to("a", 5))) // the document's _id is the aggregate's id
		s.put(t, unit("b"), 5, nil)
		units := []model.Unit{unit("a"), unit("b"), unit("absent"), plain}
		states, err := s.Watermarks(t.Context(), units)
		if err != nil {
			t.Fatal(err)
		}
		numbers, err := watermarks(t.Context(), db, units)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int64{3, 5, 0, 0} {
			loaded := s.state(t, units[i])
			if numbers[i] != want || states[i].Watermark != want || states[i].Document != nil || states[i].Err != nil || states[i].UpdatedAt != loaded.UpdatedAt || (loaded.UpdatedAt > 0) != (want > 0) {
				t.Errorf("%s: %d, %+v; loaded %+v", units[i].AggregateID, numbers[i], states[i], loaded)
			}
		}
		for id, record := range map[string]string{"broken": `"lastEventId":"two"`, "odd": `"lastEventId":2,"part":5`} {
			if err := db.insert(t.Context(), watermarksCollection, []bson.Raw{testkit.FromJSON(`{"_id":{"projection":"records","aggregateId":"` + id + `","generation":1},` + record + `}`)}); err != nil {
				t.Fatal(err)
			}
			states, err := s.Load(t.Context(), []model.Unit{unit(id)})
			if err != nil || !errors.Is(states[0].Err, errNoRecord) {
				t.Errorf("%s loads as %+v, %v", id, states, err)
			}
			results, err := s.Write(t.Context(), []model.Write{partWrite(unit(id), model.State{}, 3, nil), partWrite(unit("good-"+id), model.State{}, 3, nil)})
			if err != nil || results[0].Status != model.Rejected || results[1].Status != model.Applied {
				t.Errorf("%s is written as %+v, %v", id, results, err)
			}
		}
	})
}

// TestLargeDocuments checks that only the part is refused with which a document would be
// larger than MongoDB's limit. It runs before the parallel tests, and with more time: the race
// detector needs longer for so many bytes than a write may take.
func TestLargeDocuments(t *testing.T) {
	db := onMongo(server.Database(t))
	s := newTestStore(t, db)
	s.timeout = 5 * time.Minute
	large := strings.Repeat("x", 9<<20)
	s.apply(t, model.Applied, partWrite(viewUnit("a"), model.State{}, 1, partWith(large, to("k", 1))))
	// The parts of a group may be larger than what one transaction reads.
	results, err := s.Write(t.Context(), []model.Write{
		partWrite(viewUnit("b"), model.State{}, 1, partWith(large, to("k", 1))),
		partWrite(viewUnit("c"), model.State{}, 1, partWith("x", to("k", 1))),
		partWrite(viewUnit("a"), s.state(t, viewUnit("a")), 2, partWith(large, to("k", 2))),
	})
	if err != nil || results[0].Status != model.Rejected || results[1].Status != model.Applied || results[2].Status != model.Applied {
		t.Errorf("%+v, %v", results, err)
	}
	s.put(t, viewUnit("a"), 3, partWith("y", to("k", 1)))
	s.put(t, viewUnit("b"), 1, partWith("z", to("k", 1)))
	expectWhole(t, db, viewUnit("")).expectDocument(t, "k", `{"sum":3,"max":1,"notes":{"a":"y","b":"z","c":"x"}}`)
}

// TestUniqueIndexOfAView checks that only the part is refused with which two documents would
// have the same unique value.
func TestUniqueIndexOfAView(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	db := onMongo(database)
	if _, err := database.Collection("sums").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "sum", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	s := newTestStore(t, db)
	var writes []model.Write
	for i := range 10 {
		writes = append(writes, partWrite(viewUnit(fmt.Sprint(i)), model.State{}, 1, partWith("x", to(fmt.Sprint(i), int64(10+i)))))
	}
	writes[6].Document = partWith("x", to("other", 13))
	results := s.write(t, writes...)
	conflicts := 0
	for i, r := range results {
		switch {
		case r.Status == model.Conflict && r.Err != nil && (i == 3 || i == 6):
			conflicts++
		case r.Status != model.Applied:
			t.Errorf("%d: %+v", i, r)
		}
	}
	if conflicts != 1 {
		t.Errorf("%d of the two documents with one value were refused", conflicts)
	}
	if now := expectWhole(t, db, viewUnit("")); len(now.documents) != 9 {
		t.Errorf("%d documents", len(now.documents))
	}
}

// TestPartTakesUniqueValueAlong checks that a part can move to another document with a value
// that is unique in the collection.
func TestPartTakesUniqueValueAlong(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	if _, err := database.Collection("sums").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "max", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	s := newTestStore(t, onMongo(database))
	s.put(t, viewUnit("least"), 1, partWith("x", to("k", 1)))
	s.put(t, viewUnit("greatest"), 1, partWith("x", to("z", 2)))
	s.put(t, viewUnit("moves"), 1, partWith("x", to("l", 10)))
	// The sort order of the two documents has no effect, nor whether one of them has other parts.
	for i, key := range []string{"k", "z", "k", "l", "a"} {
		s.put(t, viewUnit("moves"), int64(2+i), partWith("x", to(key, 10)))
	}
	now := expectWhole(t, onMongo(database), viewUnit(""))
	now.expectDocument(t, "a", `{"sum":10,"max":10,"notes":{"moves":"x"}}`)
	now.expectDocument(t, "k", `{"sum":1,"max":1,"notes":{"least":"x"}}`)
	now.expectDocument(t, "z", `{"sum":2,"max":2,"notes":{"greatest":"x"}}`)
}
