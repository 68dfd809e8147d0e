package readmodel

import (
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// watermarksCollection keeps the watermarks of aggregates without a document.
const watermarksCollection = "watermarks"

// The engine's fields.
const (
	fieldID            = "_id"
	fieldLastEventID   = "lastEventId"
	fieldLastUpdatedAt = "lastUpdatedAt"
	// fieldLastGeneration is the generation of a document, fieldGeneration is the
	// generation in the _id of a side watermark. The first generation has neither.
	fieldLastGeneration = "lastGeneration"
	fieldGeneration     = "generation"
	fieldUpdatedAt      = "updatedAt"
	fieldProjection     = "projection"
	fieldAggregateID    = "aggregateId"
	// fieldCreations counts the documents created over a watermark. Its change makes a
	// concurrent write to the watermark conflict.
	fieldCreations = "creations"
)

// builder writes BSON documents. Its methods can be chained. Nested documents end in
// reverse order. It is for the filters and updates of this package, whose shapes are fixed.
// The engine appends to buffers that it reuses, so it does not use a builder. The stand-in
// mongoemu has its own, so that a mistake of one shows in the other.
type builder struct {
	dst    []byte
	starts []int32
}

func build(size int) *builder {
	b := &builder{dst: make([]byte, 0, size)}
	return b.begin()
}

func (b *builder) begin() *builder {
	start, dst := bsoncore.AppendDocumentStart(b.dst)
	b.dst, b.starts = dst, append(b.starts, start)
	return b
}

// end closes the document that began last.
func (b *builder) end() *builder {
	start := b.starts[len(b.starts)-1]
	b.starts = b.starts[:len(b.starts)-1]
	b.dst = append(b.dst, 0)
	b.dst = bsoncore.UpdateLength(b.dst, start, int32(len(b.dst))-start)
	return b
}

// document begins a document in a field.
func (b *builder) document(name string) *builder {
	b.dst = bsoncore.AppendHeader(b.dst, bsoncore.TypeEmbeddedDocument, name)
	return b.begin()
}

// array begins an array in a field.
func (b *builder) array(name string) *builder {
	b.dst = bsoncore.AppendHeader(b.dst, bsoncore.TypeArray, name)
	return b.begin()
}

func (b *builder) string(name, value string) *builder {
	b.dst = bsoncore.AppendStringElement(b.dst, name, value)
	return b
}

func (b *builder) int(name string, value int64) *builder {
	b.dst = bsoncore.AppendInt64Element(b.dst, name, value)
	return b
}

func (b *builder) time(name string, value time.Time) *builder {
	return b.millis(name, value.UnixMilli())
}

func (b *builder) millis(name string, value int64) *builder {
	b.dst = bsoncore.AppendDateTimeElement(b.dst, name, value)
	return b
}

// elements appends those of another document.
func (b *builder) elements(document []byte) *builder {
	if len(document) > 5 {
		b.dst = append(b.dst, document[4:len(document)-1]...)
	}
	return b
}

// raw closes the outermost document.
func (b *builder) raw() bson.Raw { return b.end().dst }

// ofGeneration restricts a filter to documents of one generation; 0 means the first.
func (b *builder) ofGeneration(later int64) *builder {
	if later == 0 {
		b.dst = bsoncore.AppendNullElement(b.dst, fieldLastGeneration)
		return b
	}
	return b.int(fieldLastGeneration, later)
}

// updatedAt reads lastUpdatedAt, in milliseconds since 1970; 0 if the document has none.
func updatedAt(document bson.Raw) int64 {
	at, _ := document.Lookup(fieldLastUpdatedAt).DateTimeOK()
	return at
}

// stamp is the lastUpdatedAt that a write gives its document: the current time, but later
// than that of the folded document and of the foreign document that it replaces.
func stamp(o *model.Write, now time.Time) int64 {
	at := max(now.UnixMilli(), o.UpdatedAt+1)
	if o.Foreign != nil {
		at = max(at, o.Foreign.UpdatedAt+1)
	}
	return at
}

// guard matches the unit's document with exactly this watermark.
func guard(u *model.Unit, watermark int64) bson.Raw {
	return build(len(u.AggregateID)+80).string(fieldID, u.AggregateID).int(fieldLastEventID, watermark).ofGeneration(u.Later()).raw()
}

// outdated matches the unit's document with a watermark of at most this value.
func outdated(u *model.Unit, watermark int64) bson.Raw {
	return build(len(u.AggregateID)+96).string(fieldID, u.AggregateID).document(fieldLastEventID).int("$lte", watermark).end().ofGeneration(u.Later()).raw()
}

// newDocument makes a document to insert. The engine's fields come first, so that the
// server finds them quickly.
func newDocument(o *model.Write, now time.Time) bson.Raw {
	b := build(len(o.Document)+len(o.AggregateID)+104).
		string(fieldID, o.AggregateID).int(fieldLastEventID, o.To).millis(fieldLastUpdatedAt, stamp(o, now))
	if later := o.Later(); later > 0 {
		b.int(fieldLastGeneration, later)
	}
	return b.elements(o.Document).raw()
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
	b.document("$set").int(fieldLastEventID, o.To)
	if changed {
		b.millis(fieldLastUpdatedAt, stamp(o, now))
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
	return build(len(o.AggregateID)+104).string(fieldID, o.AggregateID).int(fieldLastEventID, o.From).
		ofGeneration(o.Later()).millis(fieldLastUpdatedAt, o.UpdatedAt).raw()
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

// sideID appends the _id of a watermark.
func (b *builder) sideID(name string, u *model.Unit) *builder {
	b.document(name).string(fieldProjection, u.Projection).string(fieldAggregateID, u.AggregateID)
	if later := u.Later(); later > 0 {
		b.int(fieldGeneration, later)
	}
	return b.end()
}

// sideUpdate raises the watermark of a unit without a document. It is an upsert by _id
// only, so the server retries it if two clients make it at the same time.
func sideUpdate(o *model.Write, now time.Time) update {
	return update{
		filter: build(160).sideID(fieldID, &o.Unit).raw(),
		change: build(96).
			document("$max").int(fieldLastEventID, o.To).end().
			document("$set").time(fieldUpdatedAt, now).end().raw(),
		upsert: true,
	}
}

// sideFence matches the side watermark of a unit exactly, and changes it, so that
// concurrent writes to it conflict. If there is none, it creates one; if another client has
// created one meanwhile, the upsert fails with a duplicate _id.
func sideFence(o *model.Write, now time.Time) update {
	return update{
		filter: build(160).sideID(fieldID, &o.Unit).int(fieldLastEventID, o.From).raw(),
		change: build(96).
			document("$inc").int(fieldCreations, 1).end().
			document("$set").time(fieldUpdatedAt, now).end().raw(),
		upsert: o.From == 0,
	}
}

// byID matches the documents with these ids.
func byID(ids []string) bson.Raw {
	size := 64
	for _, id := range ids {
		size += len(id) + 12
	}
	b := build(size).document(fieldID).array("$in")
	for i, id := range ids {
		b.string(strconv.Itoa(i), id)
	}
	return b.end().end().raw()
}

// bySideID matches the watermarks of these keys.
func bySideID(keys []*model.Unit) bson.Raw {
	b := build(64 + 160*len(keys)).document(fieldID).array("$in")
	for i, k := range keys {
		b.sideID(strconv.Itoa(i), k)
	}
	return b.end().end().raw()
}

// sidesOf matches the watermarks of a generation of a projection, except for its record
// (see [Record]). It is a range for the index on _id: documents compare field by field, and
// every document is greater than every string.
func sidesOf(projection string, generation int64) bson.Raw {
	b := build(192+2*len(projection)).document(fieldID).
		document("$gt").string(fieldProjection, projection).string(fieldAggregateID, "").end().
		document("$lt").string(fieldProjection, projection).document(fieldAggregateID).end().end().
		end()
	name := fieldID + "." + fieldGeneration
	if u := (model.Unit{Generation: generation}); u.Later() > 0 {
		return b.int(name, u.Later()).raw()
	}
	b.dst = bsoncore.AppendNullElement(b.dst, name)
	return b.raw()
}

// watermarkOnly projects the watermark, the generation and the time of the last change.
var watermarkOnly = build(80).int(fieldLastEventID, 1).int(fieldLastGeneration, 1).int(fieldLastUpdatedAt, 1).raw()

// watermarkOf reads lastEventId of any numeric type.
func watermarkOf(document bson.Raw) (int64, bool) {
	v, err := document.LookupErr(fieldLastEventID)
	if err != nil {
		return 0, false
	}
	if n, ok := v.AsInt64OK(); ok && v.Type != bson.TypeDouble {
		return n, n >= 0
	}
	f, ok := v.DoubleOK()
	return int64(f), ok && f >= 0 && f < 1<<63 && f == math.Trunc(f)
}
