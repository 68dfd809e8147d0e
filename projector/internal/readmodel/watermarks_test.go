package readmodel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
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

// side is a side watermark.
func side(id string, generation, watermark int64) bson.D {
	key := bson.D{{Key: "projection", Value: "p"}, {Key: "aggregateId", Value: id}, {Key: "generation", Value: generation}}
	return bson.D{{Key: "_id", Value: key}, {Key: "lastEventId", Value: watermark}}
}

// TestWatermarksEqualThoseOfLoad asks for units in every state, over more than a page and two
// collections.
func TestWatermarksEqualThoseOfLoad(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	put(t, db, "things", bson.D{{Key: "_id", Value: "document"}, {Key: "lastEventId", Value: int64(4)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "name", Value: "x"}})
	put(t, db, "things", bson.D{{Key: "_id", Value: "second"}, {Key: "lastEventId", Value: int64(6)}, {Key: "lastGeneration", Value: int64(2)}})
	put(t, db, "things", bson.D{{Key: "_id", Value: "broken"}})
	put(t, db, "things", bson.D{{Key: "_id", Value: "key"}, {Key: "parts", Value: int64(1)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "lastUpdatedAt", Value: time.Now()}})
	for _, s := range []bson.D{
		side("key", 2, 5), side("deleted", 1, 7), side("deleted", 2, 9), side("document", 2, 3),
		side("document", 1, 2), // from before the document was created
	} {
		put(t, db, watermarksCollection, s)
	}
	var units []model.Unit
	var want []int64
	unit := func(id string, generation, watermark int64) {
		u := keyOf(id)
		u.Generation = generation
		units, want = append(units, u), append(want, watermark)
	}
	unit("document", 0, 4)
	unit("deleted", 0, 7)
	unit("absent", 0, 0)
	unit("broken", 0, 0)
	unit("second", 0, 0) // the first generation was replaced
	unit("second", 2, 6)
	unit("document", 2, 3) // a document of an older generation does not count
	unit("deleted", 2, 9)
	unit("key", 2, 5) // nor does one of an older generation that was a view
	var documents [2][]bson.Raw
	for i := range 2100 {
		unit(fmt.Sprintf("many-%04d", i), 0, int64(i+1))
		if i%2 == 1 {
			units[len(units)-1].Collection = "others"
		}
		documents[i%2] = append(documents[i%2], testkit.Raw(bson.D{{Key: "_id", Value: fmt.Sprintf("many-%04d", i)}, {Key: "lastEventId", Value: int64(i + 1)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "a", Value: 1}}))
	}
	if err := errors.Join(db.insert(t.Context(), "things", documents[0]), db.insert(t.Context(), "others", documents[1])); err != nil {
		t.Fatal(err)
	}
	s := newTestStore(t, db)
	loaded, err := s.Load(t.Context(), units)
	if err != nil {
		t.Fatal(err)
	}
	s.Release(loaded)
	states, err := newLoader(onlyFields{db}, LoaderOptions{}).Watermarks(t.Context(), units)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := watermarks(t.Context(), onlyFields{db}, units)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range states {
		full := loaded[i]
		foreign := got.Foreign != nil && full.Foreign != nil && *got.Foreign == *full.Foreign || got.Foreign == nil && full.Foreign == nil
		if got.Watermark != full.Watermark || got.Document != nil || !foreign || !errors.Is(got.Err, full.Err) || (got.Unavailable == nil) != (full.Unavailable == nil) || got.Deferred {
			t.Errorf("%+v is %+v, loaded as %+v", units[i], got, full)
		}
		if got.Watermark != want[i] || numbers[i] != want[i] {
			t.Errorf("%+v: watermarks %d and %d, want %d", units[i], got.Watermark, numbers[i], want[i])
		}
	}
}
