package readmodel

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// updatedAt reads lastUpdatedAt, in milliseconds since 1970; 0 if the document has none.
func updatedAt(document bson.Raw) int64 {
	at, _ := document.Lookup(model.FieldLastUpdatedAt).DateTimeOK()
	return at
}

// stamp is the lastUpdatedAt that a write gives its document: the current time, but later
// than that of the folded document and of the foreign document that it replaces.
func stamp(o *model.Write, now time.Time) int64 {
	at := laterThan(o.UpdatedAt, now)
	if o.Foreign != nil {
		at = max(at, o.Foreign.UpdatedAt+1)
	}
	return at
}

// laterThan is the current time, but later than at, in milliseconds since 1970.
func laterThan(at int64, now time.Time) int64 { return max(now.UnixMilli(), at+1) }

// guard matches the unit's document with exactly this watermark.
func guard(u *model.Unit, watermark int64) bson.Raw {
	return build(len(u.AggregateID)+80).string(fieldID, u.AggregateID).int(model.FieldLastEventID, watermark).int(model.FieldLastGeneration, u.Number()).raw()
}

// outdated matches the unit's document with a watermark of at most this value.
func outdated(u *model.Unit, watermark int64) bson.Raw {
	return build(len(u.AggregateID)+96).string(fieldID, u.AggregateID).document(model.FieldLastEventID).int("$lte", watermark).end().int(model.FieldLastGeneration, u.Number()).raw()
}

// newDocument makes a document to insert. The engine's fields come first, so that the
// server finds them quickly.
func newDocument(o *model.Write, now time.Time) bson.Raw {
	return build(len(o.Document)+len(o.AggregateID)+104).
		string(fieldID, o.AggregateID).int(model.FieldLastEventID, o.To).millis(model.FieldLastUpdatedAt, stamp(o, now)).
		int(model.FieldLastGeneration, o.Number()).elements(o.Document).raw()
}

// guardedUpdate makes the update of a document. If only the watermark moves, lastUpdatedAt
// stays.
func guardedUpdate(o *model.Write, now time.Time) update {
	b := build(len(o.Update) + 96)
	changed := len(o.Update) > 5
	set, found := []byte(nil), false
	if elements, err := o.Update.Elements(); err == nil {
		for _, e := range elements {
			if e.Key() == "$set" {
				set, found = e.Value().Value, true
			} else {
				b.dst = append(b.dst, e...)
			}
		}
	}
	b.document("$set").int(model.FieldLastEventID, o.To)
	if changed {
		b.millis(model.FieldLastUpdatedAt, stamp(o, now))
	}
	if found {
		b.elements(set)
	}
	return update{filter: updateGuard(o), change: b.end().raw()}
}

// updateGuard matches the document that an update was folded from.
func updateGuard(o *model.Write) bson.Raw {
	if !o.Exact {
		return guard(&o.Unit, o.From)
	}
	return build(len(o.AggregateID)+104).string(fieldID, o.AggregateID).int(model.FieldLastEventID, o.From).
		int(model.FieldLastGeneration, o.Number()).millis(model.FieldLastUpdatedAt, o.UpdatedAt).raw()
}

// updatedBy is the lastUpdatedAt of a document after a write that changed it; 0 if that
// is not known.
func updatedBy(o *model.Write, now time.Time) int64 {
	if o.Kind == model.Update && len(o.Update) <= 5 {
		// Only the watermark has moved.
		return o.UpdatedAt
	}
	return stamp(o, now)
}

// sideUpdate raises the watermark of a unit without a document. It is an upsert by _id
// only, so the server retries it if two clients make it at the same time.
func sideUpdate(o *model.Write, now time.Time) update {
	return update{
		filter: build(160).sideID(fieldID, &o.Unit).raw(),
		change: build(96).
			document("$max").int(model.FieldLastEventID, o.To).end().
			document("$set").time(fieldUpdatedAt, now).end().raw(),
		upsert: true,
	}
}

// sideFence matches the side watermark of a unit exactly, and changes it, so that
// concurrent writes to it conflict. If there is none, it creates one; if another client has
// created one meanwhile, the upsert fails with a duplicate _id.
func sideFence(o *model.Write, now time.Time) update {
	return update{
		filter: build(160).sideID(fieldID, &o.Unit).int(model.FieldLastEventID, o.From).raw(),
		change: build(96).
			document("$inc").int(fieldCreations, 1).end().
			document("$set").time(fieldUpdatedAt, now).end().raw(),
		upsert: o.From == o.NoEvent(),
	}
}

// errNoGeneration says that a document has an invalid generation.
var errNoGeneration = errors.New("the document has no valid " + model.FieldLastGeneration + ": it is not a read model of Penstock")

// generationOf reads the generation of a document.
func generationOf(document bson.Raw) (int64, bool) {
	return wholeNumber(document, model.FieldLastGeneration, 0)
}
