package readmodel

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestUnreadableWatermarkConcernsItsUnitOnly checks that a record that somebody has changed
// does not keep the other units of a group from being read.
func TestUnreadableWatermarkConcernsItsUnitOnly(t *testing.T) {
	t.Parallel()
	db := onMongo(server.Database(t))
	s, broken, other := newTestStore(t, db), keyOf("broken"), keyOf("other")
	for aggregate, record := range map[string]string{"broken": `"lastEventId":"two"`, "other": `"lastEventId":3`} {
		if err := db.insert(t.Context(), watermarksCollection, []bson.Raw{rawOf(t, `{"_id":{"projection":"`+broken.Projection+`","aggregateId":"`+aggregate+`"},`+record+`}`)}); err != nil {
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
