package readmodel

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// errNoGeneration says that a document has an invalid generation.
var errNoGeneration = errors.New("the document has no valid " + model.FieldLastGeneration + ": it is not a read model of Penstock")

// generation is the generation of a unit, from 1.
func generation(u *model.Unit) int64 { return max(u.Generation, model.FirstGeneration) }

// generationOf reads the generation of a document, from 1.
func generationOf(document bson.Raw) (int64, bool) {
	v, err := document.LookupErr(model.FieldLastGeneration)
	if err != nil || v.Type == bson.TypeNull {
		return model.FirstGeneration, true
	}
	n, ok := v.AsInt64OK()
	return n, ok && n >= setAside
}

// forgetPage bounds the watermarks that are deleted at once.
const forgetPage = 1000

// Forget deletes the watermarks of a generation that is no longer written, and gives how
// many it deleted. It works page by page, so it can be interrupted and called again.
func Forget(ctx context.Context, db *mongo.Database, projection string, generation int64) (int, error) {
	return forget(ctx, onMongo(db), projection, generation)
}

func forget(ctx context.Context, db database, projection string, generation int64) (total int, err error) {
	for {
		page, _, err := db.page(ctx, watermarksCollection, sidesOf(projection, generation), idOnly, forgetPage, forgetPage*len(sidesOf(projection, generation)))
		if err != nil || len(page) == 0 {
			return total, err
		}
		filters := make([]bson.Raw, len(page))
		for i, document := range page {
			filters[i] = build(len(document)).value(fieldID, document.Lookup(fieldID)).raw()
		}
		removed, err := db.remove(ctx, watermarksCollection, filters)
		total += removed
		if err != nil {
			return total, err
		}
	}
}

// replacement makes the update that puts a new document in the place of one of an older
// generation, if that has not changed since it was found. It is one step. Between a removal
// and an insert, another writer would find neither the document nor a watermark, and would
// take the aggregate for a new one.
func replacement(o *model.Write, now time.Time) update {
	return update{filter: foreignGuard(o.AggregateID, *o.Foreign), change: newDocument(o, now), whole: true}
}

// removeForeign removes the documents of older generations that operations found under
// their aggregate's id, if these operations have left no document. It removes only
// documents that have not changed since they were found. The watermark was raised before,
// so the aggregate always has one. If the process ends in between, a sweep removes the
// document.
func (w *Writer) removeForeign(ctx context.Context, collection string, operations []model.Write, results []model.Written) {
	var part []*model.Write
	var at []int
	for i := range operations {
		if o := &operations[i]; o.Foreign != nil && o.Kind != model.Create && results[i].Status == model.Applied {
			part, at = append(part, o), append(at, i)
		}
	}
	if len(part) == 0 {
		return
	}
	filters := make([]bson.Raw, len(part))
	for i, o := range part {
		filters[i] = foreignGuard(o.AggregateID, *o.Foreign)
	}
	deleted, err := w.db.remove(ctx, collection, filters)
	removed, _ := w.resolve(ctx, collection, part, deleted, err, func(_ *model.Write, found *found) model.Status {
		// Another writer was faster, and its own document has replaced this one.
		if found != nil {
			return model.Stale
		}
		return model.Applied
	})
	for i, result := range removed {
		results[at[i]] = result
	}
}
