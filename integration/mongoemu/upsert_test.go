package mongoemu_test

import (
	"fmt"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestUpserts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	upsert := options.UpdateOne().SetUpsert(true)
	for i, tt := range []struct {
		filter, update bson.D
		want           string
	}{
		{d("_id", "a"), d("$set", d("v", 1)), `{"_id":"a","v":1}`},
		{d("_id", "b", "k", "x", "n", d("$gt", 5)), d("$set", d("v", 1)), `{"_id":"b","k":"x","v":1}`},
		{d("_id", d("$eq", "c"), "$and", bson.A{d("k", 1), d("l", d("$in", bson.A{2}))}), d("$inc", d("v", 1)), `{"_id":"c","k":1,"l":2,"v":1}`},
		{d("_id", "d", "a.b", 1), d("$set", d("a.c", 2)), `{"_id":"d","a":{"b":1,"c":2}}`},
		{d("k", "only"), d("$setOnInsert", d("_id", "e"), "$set", d("v", 1)), `{"_id":"e","k":"only","v":1}`},
		{d("_id", "f", "$or", bson.A{d("k", 1), d("k", 2)}), d("$set", d("v", 1)), `{"_id":"f","v":1}`},
	} {
		r := must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, tt.filter, tt.update, upsert))
		if r.UpsertedCount != 1 || r.MatchedCount != 0 {
			t.Errorf("%d: %+v", i, r)
		}
		if got := relaxed(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d("_id", r.UpsertedID))), nil)); got != "["+tt.want+"]" {
			t.Errorf("%d: %s, want %s", i, got, tt.want)
		}
	}
	r := must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("k", "none"), d("$set", d("v", 1)), upsert))
	if _, ok := r.UpsertedID.(bson.ObjectID); !ok {
		t.Errorf("%+v", r)
	}
	_, err := c.UpdateOne(ctx, d("k", 1, "$and", bson.A{d("k", 2)}), d("$set", d("v", 1)), upsert)
	wantCode(t, err, 54, "path 'k' is matched twice")
	_, err = c.UpdateOne(ctx, d("_id", "g"), d("$set", d("_id", "h")), upsert)
	wantCode(t, err, 66, "immutable field '_id'")
}

// Upserts of one key by equality never fail, however many race.
func TestRacingUpsertsOfOneKey(t *testing.T) {
	t.Parallel()
	c := collection(t)
	const writers, rounds = 8, 50
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for range writers {
		wg.Go(func() {
			for i := range rounds {
				_, err := c.UpdateOne(t.Context(), d("_id", fmt.Sprint("k", i)), d("$inc", d("n", 1)), options.UpdateOne().SetUpsert(true))
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	if n := must[int64](t)(c.CountDocuments(t.Context(), d("n", writers))); n != rounds {
		t.Errorf("%d of %d counters are right", n, rounds)
	}
}
