package readmodel

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// queries counts the queries, and calls between before each of them.
type queries struct {
	database
	count   atomic.Int64
	between func(collection string)
}

func (q *queries) find(ctx context.Context, collection string, filter, projection bson.Raw, limit int) ([]bson.Raw, error) {
	q.count.Add(1)
	if q.between != nil {
		q.between(collection)
	}
	return q.database.find(ctx, collection, filter, projection, limit)
}

// put stores a document.
func put(t *testing.T, db database, collection string, document any) {
	t.Helper()
	if err := db.insert(t.Context(), collection, []bson.Raw{bsontest.Raw(document)}); err != nil {
		t.Fatal(err)
	}
}

func side(id string, generation, watermark int64) bson.D {
	key := bson.D{{Key: "projection", Value: "users"}, {Key: "aggregateId", Value: id}}
	if generation > 1 {
		key = append(key, bson.E{Key: "generation", Value: generation})
	}
	return bson.D{{Key: "_id", Value: key}, {Key: "lastEventId", Value: watermark}}
}

func TestWatermarksOfManyUnitsTakeOneQueryForEachCollection(t *testing.T) {
	t.Parallel()
	db := &queries{database: newFakeDatabase(1)}
	put(t, db, "users", bson.D{{Key: "_id", Value: "document"}, {Key: "lastEventId", Value: int64(4)}, {Key: "name", Value: "x"}})
	put(t, db, "users", bson.D{{Key: "_id", Value: "second"}, {Key: "lastEventId", Value: int64(6)}, {Key: "lastGeneration", Value: int64(2)}})
	put(t, db, "users", bson.D{{Key: "_id", Value: "broken"}})
	put(t, db, "users", bson.D{{Key: "_id", Value: "key"}, {Key: "parts", Value: int64(1)}, {Key: "lastUpdatedAt", Value: time.Now()}})
	put(t, db, "watermarks", side("key", 2, 5))
	put(t, db, "watermarks", side("document", 1, 2)) // from before it was created
	put(t, db, "watermarks", side("deleted", 1, 7))
	put(t, db, "watermarks", side("deleted", 2, 9))
	put(t, db, "watermarks", side("document", 2, 3))
	unit := func(id string, generation int64) model.Unit {
		return model.Unit{Projection: "users", Generation: generation, Collection: "users", AggregateID: id}
	}
	units := []model.Unit{
		unit("document", 0), unit("deleted", 0), unit("absent", 0), unit("broken", 0),
		// The first generation has no watermark from a document of a newer generation.
		unit("second", 0), unit("second", 2),
		// A document of an older generation does not count for a newer one.
		unit("document", 2), unit("deleted", 2),
		// Nor does one of an older generation that was a view.
		unit("key", 2),
	}
	got, err := watermarks(t.Context(), db, units)
	if want := []int64{4, 7, 0, 0, 0, 6, 3, 9, 5}; err != nil || !slices.Equal(got, want) {
		t.Errorf("watermarks %v, want %v; %v", got, want, err)
	}
	if n := db.count.Load(); n != 2 {
		t.Errorf("%d queries for one collection, want 2", n)
	}
}

// The watermark is never higher than a later read finds. A delete raises the side
// watermark first, and removes the document later. Here the document has just been
// created.
func TestWatermarkIsNotTooHighDuringADelete(t *testing.T) {
	t.Parallel()
	db := &queries{database: newFakeDatabase(1)}
	units := []model.Unit{{Projection: "users", Collection: "users", AggregateID: "u"}}
	db.between = func(collection string) {
		if collection == "watermarks" {
			put(t, db.database, "users", bson.D{{Key: "_id", Value: "u"}, {Key: "lastEventId", Value: int64(7)}})
			put(t, db.database, "watermarks", side("u", 1, 8))
		}
	}
	if got, err := watermarks(t.Context(), db, units); err != nil || got[0] != 7 {
		t.Errorf("watermark %v, want 7: the document of event 7 is there; %v", got, err)
	}
}
