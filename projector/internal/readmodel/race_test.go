package readmodel

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestLoadDuringADeleteFindsTheDocument covers the race for which the loader reads
// documents twice. The first read finds none. Before the read of the side watermarks, the
// document is created, and a delete raises the side watermark and then ends without
// removing the document.
func TestLoadDuringADeleteFindsTheDocument(t *testing.T) {
	t.Parallel()
	plain := newDatabase(t)
	other, k := newTestStore(t, plain), deletable("a")
	for _, ask := range []func(db database){
		func(db database) { newTestStore(t, db).expect(t, k, 3, `{"a":3}`) },
		func(db database) {
			unknown := keyOf("a") // GET /applied does not know which projections delete
			if found, err := watermarks(t.Context(), db, []model.Unit{unknown}); err != nil || found[0] != 3 {
				t.Errorf("watermarks %v, %v", found, err)
			}
		},
	} {
		if err := errors.Join(
			plain.db.Collection("things").Drop(t.Context()), plain.db.Collection(watermarksCollection).Drop(t.Context()), Prepare(t.Context(), plain.db, []string{"things"})); err != nil {
			t.Fatal(err)
		}
		other.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, To: 2})
		var meanwhile sync.Once
		ask(&faulty{database: plain, before: func(command, collection string) error {
			if command == "find" && collection == watermarksCollection {
				meanwhile.Do(func() {
					other.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, From: 2, To: 3, Document: testkit.FromJSON(`{"a":3}`)})
					other.apply(t, model.Applied, model.Write{Unit: k, Kind: model.MoveWatermark, From: 3, To: 5})
				})
			}
			return nil
		}})
	}
}

// TestRefusedDocuments checks that only the operation that the server permanently refuses
// is rejected, in every way of writing.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	if _, err := db.db.Collection("things").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "email", Value: 1}}, Options: options.Index().SetUnique(true).SetSparse(true)}); err != nil {
		t.Fatal(err)
	}
	if err := db.db.RunCommand(t.Context(), bson.D{{Key: "collMod", Value: "things"}, {Key: "validator", Value: bson.D{{Key: "v", Value: bson.D{{Key: "$ne", Value: "invalid"}}}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	s := newTestStore(t, db)
	s.apply(t, model.Applied, model.Write{Unit: keyOf("first"), Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"email":"x"}`)})
	fields := []string{`"v":"good"`, `"v":"invalid"`, `"email":"x"`, `"v":"fine"`, `"v":"fine"`}
	want := []model.Status{model.Applied, model.Rejected, model.Conflict, model.Applied, model.Applied}
	for _, deletes := range []bool{false, true} {
		var create []model.Write
		for i, f := range fields {
			k := keyOf(fmt.Sprintf("%v-%d", deletes, i))
			k.Deletes = deletes
			create = append(create, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{` + f + `}`)})
		}
		for i, r := range s.write(t, create...) {
			if r.Status != want[i] || (r.Err != nil) != (want[i] != model.Applied) {
				t.Errorf("create %s (deletes: %v): %v, want %d", fields[i], deletes, r, want[i])
			}
		}
		for i, f := range fields[1:3] {
			change := model.Write{Unit: create[0].Unit, Kind: model.Update, From: 1, To: 2, Update: testkit.FromJSON(`{"$set":{` + f + `}}`)}
			if r := s.write(t, change)[0]; r.Status != want[i+1] {
				t.Errorf("change to %s: %v, want %d", f, r, want[i+1])
			}
		}
	}
}

// TestLostRepliesAreReportedAsUnknown checks that an operation with an unknown result is
// reported as such, and that loading then shows the result.
func TestLostRepliesAreReportedAsUnknown(t *testing.T) {
	t.Parallel()
	plain := newDatabase(t)
	newTestStore(t, plain).apply(t, model.Applied, model.Write{Unit: keyOf("old"), Kind: model.Create, To: 1, Document: testkit.FromJSON(`{}`)},
		model.Write{Unit: deletable("gone"), Kind: model.Create, To: 1, Document: testkit.FromJSON(`{}`)})
	lost := &faulty{database: plain, after: func(string, string) error { return errUnanswered }}
	s := newTestStore(t, lost)
	operations := []model.Write{
		{Unit: keyOf("old"), Kind: model.Update, From: 1, To: 2, Update: testkit.FromJSON(`{"$set":{"a":2}}`)},
		{Unit: keyOf("new"), Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)},
		{Unit: keyOf("none"), Kind: model.MoveWatermark, To: 1},
		{Unit: deletable("made"), Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)},
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
	s = newTestStore(t, plain)
	s.expect(t, keyOf("old"), 2, `{"a":2}`)
	s.expect(t, keyOf("new"), 1, `{"a":1}`)
	s.expect(t, keyOf("none"), 1, "")
	s.expect(t, deletable("made"), 0, "")
	s.expect(t, deletable("gone"), 1, "{}")
}
