package readmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// lockWait is how long a bulk of watermarks may take before it is assumed that a transaction
// holds one of them. Outside of a transaction, the server waits for the end of such a
// transaction.
const lockWait = time.Second

// moveWatermarks raises the watermarks of units without a document. They only rise. A side
// watermark only says that there is no document as of that event, and every writer that
// folds the same events gets the same.
//
// A projector that was killed while it created documents leaves a transaction that holds
// their watermarks until the server ends it. A bulk would wait for it as a whole. So the
// watermarks of a slow bulk are written in transactions, in which the server reports a
// conflict instead of waiting. Then only the locked ones fail.
func (w *Writer) moveWatermarks(ctx context.Context, operations []*model.Write) []model.Written {
	now := time.Now()
	updates := make([]update, len(operations))
	for i, o := range operations {
		updates[i] = sideUpdate(o, now)
	}
	attempt, cancel := mongox.Timeout(ctx, lockWait)
	_, err := w.db.update(attempt, watermarksCollection, updates)
	late := err != nil && errors.Is(context.Cause(attempt), mongox.ErrNoAnswer)
	cancel()
	if late && ctx.Err() == nil {
		return w.moveApart(ctx, updates)
	}
	results := judgeAll(err, len(updates), applied)
	for i := range results {
		// Two clients created the same watermark. It exists for the next attempt.
		if results[i].Status == model.Stale {
			results[i] = model.Written{Status: model.Unknown, Err: err}
		}
	}
	return results
}

// moveApart writes watermarks in a transaction. If that conflicts with another one, it
// halves them until the locked ones are alone.
func (w *Writer) moveApart(ctx context.Context, updates []update) []model.Written {
	if len(updates) == 0 {
		return nil
	}
	err := w.db.transaction(ctx, func(ctx context.Context) error {
		_, err := w.db.update(ctx, watermarksCollection, updates)
		return err
	})
	if err == nil {
		return judgeAll(nil, len(updates), applied)
	}
	if len(updates) == 1 || !aborted(err) || ctx.Err() != nil {
		return unknown(err, len(updates))
	}
	half := len(updates) / 2
	return append(w.moveApart(ctx, updates[:half]), w.moveApart(ctx, updates[half:])...)
}

// forgetPage bounds the watermarks that are read and deleted at once. An id has 8 KiB at most, and a
// command 16 MiB.
const forgetPage = 1500

// Forget deletes the watermarks of a generation that is no longer written, and gives how many it
// deleted. It works page by page, in the order of _id, after the given one; nil stands for all. With
// an error, passed is where another call goes on.
func Forget(ctx context.Context, db *mongo.Database, projection string, generation int64, after bson.Raw) (total int64, passed bson.Raw, err error) {
	m := onMongo(db)
	for {
		// The index on _id has all that is asked for. With a filter by the generation, the server would
		// read the watermarks of the other generations, which can be millions.
		page, err := m.inOrder(ctx, watermarksCollection, sidesOf(projection, after), idOnly, forgetPage)
		if err != nil || len(page) == 0 {
			return total, after, err
		}
		var ids bson.A
		for _, document := range page {
			if sideKeyIn(document).generation == generation {
				ids = append(ids, document.Lookup(fieldID))
			}
		}
		if len(ids) > 0 {
			result, err := db.Collection(watermarksCollection).DeleteMany(ctx, bson.D{{Key: fieldID, Value: bson.D{{Key: "$in", Value: ids}}}})
			if err != nil {
				return total, after, fmt.Errorf("delete %d watermarks of projection %s: %w", len(ids), projection, err)
			}
			total += result.DeletedCount
		}
		after = page[len(page)-1].Lookup(fieldID).Document()
	}
}

// ForgetAbandoned deletes the watermarks of an aggregate in the generations up to last that are not among
// the current ones, and gives how many it deleted.
func ForgetAbandoned(ctx context.Context, db *mongo.Database, projection, aggregateID string, last int64, current []int64) (int64, error) {
	bound := func(generation int64) bson.Raw {
		return build(64+len(projection)+len(aggregateID)).string(fieldProjection, projection).string(fieldAggregateID, aggregateID).int(fieldGeneration, generation).raw()
	}
	result, err := db.Collection(watermarksCollection).DeleteMany(ctx, bson.D{
		{Key: fieldID, Value: bson.D{{Key: "$gte", Value: bound(0)}, {Key: "$lte", Value: bound(last)}}},
		{Key: fieldID + "." + fieldGeneration, Value: bson.D{{Key: "$nin", Value: current}}},
	})
	if err != nil {
		return 0, fmt.Errorf("delete the watermarks of abandoned generations of projection %s: %w", projection, err)
	}
	return result.DeletedCount, nil
}

// sideKey is the _id of a watermark.
type sideKey struct {
	projection, aggregateID string
	generation              int64
}

func sideKeyOf(u *model.Unit) sideKey { return sideKey{u.Projection, u.AggregateID, u.Number()} }

// sideKeyIn reads the _id of a stored watermark.
func sideKeyIn(document bson.Raw) (key sideKey) {
	id, _ := document.Lookup(fieldID).DocumentOK()
	key.projection, _ = id.Lookup(fieldProjection).StringValueOK()
	key.aggregateID, _ = id.Lookup(fieldAggregateID).StringValueOK()
	key.generation, _ = id.Lookup(fieldGeneration).AsInt64OK()
	return key
}

// unreadable is the watermark of a record that the engine has not written.
const unreadable = math.MinInt64

// sideWatermarks reads the side watermarks of units: NoEvent for a unit without one, and unreadable
// for one that is none of Penstock's. That one must not keep the others from being read.
func sideWatermarks(ctx context.Context, db database, keys []*model.Unit) (map[sideKey]int64, error) {
	found, err := db.find(ctx, watermarksCollection, bySideID(keys), watermarkOnly, len(keys))
	if err != nil {
		return nil, err
	}
	watermarks := make(map[sideKey]int64, len(keys))
	for _, u := range keys {
		watermarks[sideKeyOf(u)] = u.NoEvent()
	}
	for _, document := range found {
		key := sideKeyIn(document)
		watermark, ok := watermarkOf(document)
		if !ok {
			watermark = unreadable
		}
		watermarks[key] = watermark
	}
	return watermarks, nil
}
