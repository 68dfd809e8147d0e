package readmodel

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// setAside is the generation of a document that a repair has set aside. It is older than
// every other generation, so the document is foreign to every unit.
const setAside int64 = 0

// A Repairer sets documents aside that are wrong, so that a [Writer] can replace them.
//
// A replacement may keep the watermark. A writer that loaded the wrong document just before
// would still match it, and write a result of the wrong document. So the document is set
// aside first: no guard of a writer matches it any more. After that the caller reads the
// aggregate's last event. By then the event store has every event that a writer of the
// wrong document had. So either the replacement has a higher watermark than that writer's
// guard, or there is no such writer.
//
// A repair that dies in between leaves a foreign document. The next event of the aggregate,
// or the next repair, replaces it.
type Repairer struct{ db mongoDatabase }

// NewRepairer makes a repairer for that database. It sets the concerns itself.
func NewRepairer(db *mongo.Database) *Repairer { return &Repairer{onMongo(db)} }

// SetAside sets the document of a unit aside if it has exactly that watermark and the
// unit's generation, and reports whether it did.
func (r *Repairer) SetAside(ctx context.Context, u model.Unit, watermark int64) (bool, error) {
	matched, err := r.db.update(ctx, u.Collection, []update{{
		filter: guard(&u, watermark),
		change: build(48).document("$set").int(model.FieldLastGeneration, setAside).end().raw(),
	}})
	if err != nil {
		return false, fmt.Errorf("set the document of %s in %s aside: %w", u.AggregateID, u.Projection, err)
	}
	return matched == 1, nil
}

// RemoveForeign deletes exactly the document of an older generation that was found under a
// unit's aggregate id, and reports whether it still existed. It is for a unit that has no
// document as of its watermark. The watermark stays.
func (r *Repairer) RemoveForeign(ctx context.Context, u model.Unit, foreign model.Foreign) (bool, error) {
	deleted, err := r.db.remove(ctx, u.Collection, []bson.Raw{foreignGuard(u.AggregateID, foreign)})
	if err != nil {
		return false, fmt.Errorf("remove the document of generation %d of %s in %s: %w", foreign.Generation, u.AggregateID, u.Projection, err)
	}
	return deleted == 1, nil
}

// Remove deletes the document under a unit's aggregate id, of whatever generation and watermark.
// It is for an aggregate whose events were deleted.
func (r *Repairer) Remove(ctx context.Context, u model.Unit) error {
	if _, err := r.db.remove(ctx, u.Collection, []bson.Raw{build(64).string(fieldID, u.AggregateID).raw()}); err != nil {
		return fmt.Errorf("remove the document of %s in %s: %w", u.AggregateID, u.Projection, err)
	}
	return nil
}

// Readmit deletes the side watermark of a unit if it has this value, so that events up to it count
// again: those of an aggregate that was erased, or those behind one that cannot be folded any more.
func (r *Repairer) Readmit(ctx context.Context, u model.Unit, watermark int64) error {
	filter := build(160).sideID(fieldID, &u).int(model.FieldLastEventID, watermark).raw()
	if _, err := r.db.remove(ctx, watermarksCollection, []bson.Raw{filter}); err != nil {
		return fmt.Errorf("delete the watermark of %s in %s: %w", u.AggregateID, u.Projection, err)
	}
	return nil
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

// foreignGuard matches exactly that foreign document.
func foreignGuard(aggregateID string, f model.Foreign) bson.Raw {
	b := build(len(aggregateID)+80).string(fieldID, aggregateID)
	if f.Watermark == viewWatermark {
		b.null(model.FieldLastEventID)
	} else {
		b.int(model.FieldLastEventID, f.Watermark)
	}
	return b.int(model.FieldLastGeneration, f.Generation).raw()
}
