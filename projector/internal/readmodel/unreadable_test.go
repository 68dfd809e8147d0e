package readmodel

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestUnreadableWatermarkConcernsItsUnitOnly checks that a record that somebody has changed
// does not keep the other units of a group from being read.
func TestUnreadableWatermarkConcernsItsUnitOnly(t *testing.T) {
	t.Parallel()
	db := onMongo(server.Database(t))
	s, broken, other := newTestStore(t, db), keyOf("broken"), keyOf("other")
	for aggregate, record := range map[string]string{"broken": `"lastEventId":"two"`, "other": `"lastEventId":3`} {
		if err := db.insert(t.Context(), watermarksCollection, []bson.Raw{testkit.FromJSON(`{"_id":{"projection":"` + broken.Projection + `","aggregateId":"` + aggregate + `","generation":1},` + record + `}`)}); err != nil {
			t.Fatal(err)
		}
	}
	units := []model.Unit{broken, other}
	if found, err := watermarks(t.Context(), db, units); err != nil || found[0] != 0 || found[1] != 3 {
		t.Errorf("watermarks %v, %v", found, err)
	}
	states, err := s.Load(t.Context(), units)
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(states[0].Err, errNoRecord) || states[1].Err != nil || states[1].Unavailable != nil || states[1].Watermark != 3 {
		t.Errorf("loads as %+v", states)
	}
}

// TestUnreadableWatermarkOfAPartStopsNoOtherPart makes a document of all its parts. Somebody has
// changed the watermark of one of them.
func TestUnreadableWatermarkOfAPartStopsNoOtherPart(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	db := onMongo(database)
	s, broken, other := newTestStore(t, db), viewUnit("broken"), viewUnit("other")
	s.put(t, broken, 1, partWith("x", to("k", 5)))
	s.put(t, other, 1, partWith("y", to("k", 1)))
	if r, err := database.Collection(watermarksCollection).UpdateOne(t.Context(), bson.D{{Key: "_id.aggregateId", Value: "broken"}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "lastEventId", Value: "x"}}}}); err != nil || r.ModifiedCount != 1 {
		t.Fatal(r, err)
	}
	if _, err := database.Collection("sums").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "k"}}); err != nil {
		t.Fatal(err)
	}
	s.put(t, other, 2, partWith("y", to("k", 2)))
	now, err := readView(t.Context(), db, other)
	if err != nil {
		t.Fatal(err)
	}
	now.expectDocument(t, "k", `{"sum":7,"max":5,"notes":{"broken":"x","other":"y"}}`)
	if found, err := NewViewDocuments(database).Compare(t.Context(), other, sums{}, "k"); err != nil || string(found.Stored) != string(found.Whole) {
		t.Errorf("compared as %+v, %v", found, err)
	}
}
