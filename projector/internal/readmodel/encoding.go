package readmodel

import (
	"math"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// watermarksCollection keeps the watermarks of aggregates without a document, and those of
// units with Parts together with their parts.
const watermarksCollection = "watermarks"

// The engine's fields, besides those in [model].
const (
	fieldID = "_id"
	// fieldGeneration is the generation in the _id of a side watermark.
	fieldGeneration  = "generation"
	fieldUpdatedAt   = "updatedAt"
	fieldProjection  = "projection"
	fieldAggregateID = "aggregateId"
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

// strings appends an array of strings.
func (b *builder) strings(name string, values []string) *builder {
	b.array(name)
	for i, value := range values {
		b.string(strconv.Itoa(i), value)
	}
	return b.end()
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

// value appends a value, if there is one.
func (b *builder) value(name string, v bson.RawValue) *builder {
	if v.Type != 0 {
		b.dst = bsoncore.AppendValueElement(b.dst, name, bsoncore.Value{Type: bsoncore.Type(v.Type), Data: v.Value})
	}
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

// null appends a null, which a filter finds in documents without the field, too.
func (b *builder) null(name string) *builder {
	b.dst = bsoncore.AppendNullElement(b.dst, name)
	return b
}

// sideID appends the _id of a watermark.
func (b *builder) sideID(name string, u *model.Unit) *builder {
	return b.document(name).string(fieldProjection, u.Projection).string(fieldAggregateID, u.AggregateID).int(fieldGeneration, u.Number()).end()
}

// byID matches the documents with these ids.
func byID(ids []string) bson.Raw {
	size := 64
	for _, id := range ids {
		size += len(id) + 12
	}
	return build(size).document(fieldID).strings("$in", ids).end().raw()
}

// bySideID matches the watermarks of these keys.
func bySideID(keys []*model.Unit) bson.Raw {
	b := build(64 + 160*len(keys)).document(fieldID).array("$in")
	for i, k := range keys {
		b.sideID(strconv.Itoa(i), k)
	}
	return b.end().end().raw()
}

// sidesOf matches the watermarks of all generations of a projection after an _id; nil stands for all.
// The range of ids is for the index: documents compare field by field.
func sidesOf(projection string, after bson.Raw) bson.Raw {
	b := build(128 + 2*len(projection) + len(after)).document(fieldID).document("$gt")
	if after == nil {
		b.string(fieldProjection, projection)
	}
	return b.elements(after).end().
		document("$lt").string(fieldProjection, projection).document(fieldAggregateID).end().end().
		end().raw()
}

// sidesAfter matches the watermarks of a generation of a projection from the aggregate ids greater
// than after.
func sidesAfter(projection, after string, generation int64) bson.Raw {
	last := build(96+len(projection)+len(after)).string(fieldProjection, projection).string(fieldAggregateID, after).document(fieldGeneration).end().raw()
	of := sidesOf(projection, last)
	return build(len(of)+64).elements(of).int(fieldID+"."+fieldGeneration, generation).raw()
}

// idOnly projects nothing but the _id.
var idOnly = build(16).int(fieldID, 1).raw()

// watermarkOnly projects the watermark, or the number of parts, the generation and the time of
// the last change.
var watermarkOnly = build(96).int(model.FieldParts, 1).int(model.FieldLastEventID, 1).int(model.FieldLastGeneration, 1).int(model.FieldLastUpdatedAt, 1).raw()

// watermarkOf reads lastEventId of any numeric type. If event ids begin at 0, a unit without events
// has the watermark -1.
func watermarkOf(document bson.Raw) (int64, bool) {
	return wholeNumber(document, model.FieldLastEventID, -1)
}

// wholeNumber reads a whole number of any numeric type, from least. Shells and imports change the
// types of numbers.
func wholeNumber(document bson.Raw, field string, least int64) (int64, bool) {
	v, err := document.LookupErr(field)
	if err != nil {
		return 0, false
	}
	if n, ok := v.AsInt64OK(); ok && v.Type != bson.TypeDouble {
		return n, n >= least
	}
	f, ok := v.DoubleOK()
	return int64(f), ok && f >= float64(least) && f < 1<<63 && f == math.Trunc(f)
}

// viewWatermark is the watermark of a view document, which has none, if it is foreign.
const viewWatermark = math.MinInt64

// foreignWatermark reads the watermark of a document that may be of another generation. In
// that generation, the projection may have been a view.
func foreignWatermark(document bson.Raw) (int64, bool) {
	if watermark, ok := watermarkOf(document); ok {
		return watermark, true
	}
	isView := isViewDocument(document)
	if !isView {
		return 0, false
	}
	return viewWatermark, true
}
