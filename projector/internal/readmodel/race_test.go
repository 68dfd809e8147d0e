package readmodel

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestCreationConflictsWithAConcurrentErase covers the race for which a creation's
// transaction writes to the watermark. The creation begins before the erase and commits
// after it. If the transaction only read the watermark, both would succeed.
func TestCreationConflictsWithAConcurrentErase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDatabase(1)
		late, owner := newTestStore(t, db), newTestStore(t, db)
		k := deletable("a")
		owner.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 2})
		var erase sync.WaitGroup
		db.onArrival = func(command, _ string) {
			if command != "commit" {
				return
			}
			db.onArrival = nil
			erase.Go(func() {
				owner.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Erase, From: 2, To: 4})
			})
			<-time.After(lockWait / 2)
		}
		late.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, From: 2, To: 3, Document: bsontest.FromJSON(`{"a":3}`)})
		erase.Wait()
		owner.expect(t, k, 4, "")
	})
}

// TestLoadDuringADeleteFindsTheDocument covers the race for which the loader reads
// documents twice. The first read finds none. Before the read of the side watermarks, the
// document is created, and a delete raises the side watermark and then ends without
// removing the document.
func TestLoadDuringADeleteFindsTheDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDatabase(1)
		s := newTestStore(t, db)
		k := deletable("a")
		s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 2})
		db.onArrival = func(command, collection string) {
			if command != "find" || collection != watermarksCollection {
				return
			}
			db.onArrival = nil
			s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, From: 2, To: 3, Document: bsontest.FromJSON(`{"a":3}`)})
			s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, From: 3, To: 5})
		}
		s.expect(t, k, 3, `{"a":3}`)
	})
}

// writeError makes an error of the server about one operation.
func writeError(code int, message, keyPattern string) mongo.WriteError {
	e := mongo.WriteError{Code: code, Message: message}
	if keyPattern != "" {
		e.Raw = bsontest.Raw(bson.D{{Key: "keyPattern", Value: bson.D{{Key: keyPattern, Value: 1}}}})
	}
	return e
}

// TestRefusedDocuments checks that only the operation that the server permanently refuses
// is rejected, in every way of writing.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDatabase(1)
		db.refuse = func(collection string, document bson.Raw) error {
			if collection == watermarksCollection {
				return nil
			}
			switch v, _ := document.Lookup("v").StringValueOK(); v {
			case "invalid":
				return writeError(121, "Document failed validation", "")
			case "taken":
				return writeError(11000, "E11000 duplicate key error collection: db.things index: email_1 dup key: { email: 1 }", "email")
			case "crowded":
				return writeError(112, "WriteConflict", "")
			}
			return nil
		}
		s := newTestStore(t, db)
		for _, deletes := range []bool{false, true} {
			values := []string{"good", "invalid", "taken", "crowded", "fine", "fine", "fine"}
			want := []model.Status{model.Applied, model.Rejected, model.Conflict, model.Unknown, model.Applied, model.Applied, model.Applied}
			if deletes {
				want[3] = model.Stale // a transaction that conflicts has not happened
			}
			var create, change []model.Write
			for i, v := range values {
				k := keyOf(fmt.Sprintf("%v-%d", deletes, i))
				k.Deletes = deletes
				create = append(create, model.Write{Unit: k, Kind: model.Create, To: 1, Document: bsontest.FromJSON(`{"v":"` + v + `"}`)})
				k.AggregateID = fmt.Sprintf("%v-0", deletes)
				change = append(change, model.Write{Unit: k, Kind: model.Update, From: 1, To: 2, Update: bsontest.FromJSON(`{"$set":{"v":"` + v + `"}}`)})
			}
			results := s.write(t, create...)
			for i, r := range results {
				if r.Status != want[i] || (r.Err != nil) != (want[i] == model.Rejected || want[i] == model.Conflict || want[i] == model.Unknown) {
					t.Errorf("create %s (deletes: %v): %v, want %d", values[i], deletes, r, want[i])
				}
			}
			for i, o := range change[1:4] {
				results := s.write(t, o)
				if results[0].Status != []model.Status{model.Rejected, model.Conflict, model.Unknown}[i] {
					t.Errorf("change to %s: %v, want %d", values[i+1], results[0], want[i+1])
				}
			}
		}
	})
}

// TestLostRepliesAreReportedAsUnknown checks that an operation with an unknown result is
// reported as such, and that loading then shows the result.
func TestLostRepliesAreReportedAsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDatabase(1)
		s := newTestStore(t, db)
		s.apply(t, model.Applied, model.Write{Unit: keyOf("old"), Kind: model.Create, To: 1, Document: bsontest.FromJSON(`{}`)},
			model.Write{Unit: deletable("gone"), Kind: model.Create, To: 1, Document: bsontest.FromJSON(`{}`)})
		db.unanswered = 1
		operations := []model.Write{
			{Unit: keyOf("old"), Kind: model.Update, From: 1, To: 2, Update: bsontest.FromJSON(`{"$set":{"a":2}}`)},
			{Unit: keyOf("new"), Kind: model.Create, To: 1, Document: bsontest.FromJSON(`{"a":1}`)},
			{Unit: keyOf("none"), Kind: model.MoveWatermark, To: 1},
			{Unit: deletable("made"), Kind: model.Create, To: 1, Document: bsontest.FromJSON(`{"a":1}`)},
			{Unit: deletable("gone"), Kind: model.Delete, From: 1, To: 2},
		}
		for i, r := range s.write(t, operations...) {
			if r.Status != model.Unknown || r.Err == nil {
				t.Errorf("%s: %v", operations[i].AggregateID, r)
			}
		}
		states, err := s.Load(t.Context(), []model.Unit{keyOf("old")})
		if err != nil || !errors.As(states[0].Unavailable, new(mongo.CommandError)) {
			t.Errorf("a lost reply gave %v, %v", states, err)
		}
		db.unanswered = 0
		s.expect(t, keyOf("old"), 2, `{"a":2}`)
		s.expect(t, keyOf("new"), 1, `{"a":1}`)
		s.expect(t, keyOf("none"), 1, "")
		s.expect(t, deletable("made"), 0, "")
		s.expect(t, deletable("gone"), 1, "{}")
	})
}

// TestForeignDocument checks that a document without a watermark is not accepted as a
// read model.
func TestForeignDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDatabase(1)
		s := newTestStore(t, db)
		for i, lastEventID := range []string{``, `,"lastEventId":"5"`, `,"lastEventId":1.5`, `,"lastEventId":-1`} {
			k := keyOf(fmt.Sprintf("foreign-%d", i))
			if err := db.insert(t.Context(), k.Collection, []bson.Raw{bsontest.FromJSON(`{"_id":"` + k.AggregateID + `"` + lastEventID + `}`)}); err != nil {
				t.Fatal(err)
			}
			states, err := s.Load(t.Context(), []model.Unit{k})
			if err != nil || !errors.Is(states[0].Err, errNoReadModel) {
				t.Errorf("%s: %+v, %v", lastEventID, states, err)
			}
			s.apply(t, model.Stale, model.Write{Unit: k, Kind: model.Create, To: 1, Document: bsontest.FromJSON(`{}`)})
		}
		for i, lastEventID := range []string{`5.0`, `{"$numberInt":"5"}`} {
			k := keyOf(fmt.Sprintf("odd-%d", i))
			if err := db.insert(t.Context(), k.Collection, []bson.Raw{bsontest.FromJSON(`{"_id":"` + k.AggregateID + `","lastEventId":` + lastEventID + `}`)}); err != nil {
				t.Fatal(err)
			}
			s.expect(t, k, 5, "{}")
		}
	})
}
