package readmodel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// onlyFields is a database whose whole documents must not be read.
type onlyFields struct{ database }

func (d onlyFields) page(ctx context.Context, collection string, filter, projection bson.Raw, limit, maxBytes int) ([]bson.Raw, bool, error) {
	if projection == nil {
		return nil, false, errors.New("whole documents were read")
	}
	return d.database.page(ctx, collection, filter, projection, limit, maxBytes)
}

// TestWatermarksEqualThoseOfLoad compares both functions for units in every state, over
// more than a page and two collections.
func TestWatermarksEqualThoseOfLoad(t *testing.T) {
	t.Parallel()
	// The fake compares every document with every key. On a busy machine, that takes
	// longer than a group may. In virtual time, it takes no time.
	synctest.Test(t, testWatermarksAreThoseOfLoad)
}

func testWatermarksAreThoseOfLoad(t *testing.T) {
	t.Helper()
	db := newFakeDatabase(1)
	s := newTestStore(t, db)
	var units []model.Unit
	unit := func(name string, change func(*model.Unit)) model.Unit {
		u := keyOf(name)
		if change != nil {
			change(&u)
		}
		units = append(units, u)
		return u
	}
	for i := range 2100 {
		u := unit(fmt.Sprintf("many-%04d", i), func(u *model.Unit) {
			if i%2 == 1 {
				u.Collection = "others"
			}
		})
		s.apply(t, model.Applied, model.Write{Unit: u, Kind: model.Create, To: int64(i + 1), Document: bsontest.FromJSON(`{"a":1}`)})
	}
	unit("absent", nil)
	s.apply(t, model.Applied, model.Write{Unit: unit("side", nil), Kind: model.MoveWatermark, To: 4})
	deleted := unit("deleted", func(u *model.Unit) { u.Deletes = true })
	s.apply(t, model.Applied, model.Write{Unit: deleted, Kind: model.Create, To: 4, Document: bsontest.FromJSON(`{"a":1}`)})
	s.apply(t, model.Applied, model.Write{Unit: deleted, Kind: model.Delete, From: 4, To: 6})
	older := unit("older", nil)
	s.apply(t, model.Applied, model.Write{Unit: older, Kind: model.Create, To: 7, Document: bsontest.FromJSON(`{"a":1}`)})
	unit("older", func(u *model.Unit) { u.Generation = 2 })

	loaded, err := s.Load(t.Context(), units)
	if err != nil {
		t.Fatal(err)
	}
	s.Release(loaded)
	got, err := newLoader(onlyFields{db}, LoaderOptions{}).Watermarks(t.Context(), units)
	if err != nil {
		t.Fatal(err)
	}
	for i := range units {
		want := loaded[i]
		foreign := got[i].Foreign != nil && want.Foreign != nil && *got[i].Foreign == *want.Foreign || got[i].Foreign == nil && want.Foreign == nil
		if got[i].Watermark != want.Watermark || got[i].Document != nil || !foreign || got[i].Err != nil || got[i].Unavailable != nil || got[i].Deferred {
			t.Errorf("%+v is %+v, loaded as %+v", units[i], got[i], want)
		}
	}
}
