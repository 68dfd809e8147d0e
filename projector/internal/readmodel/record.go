package readmodel

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// fieldPart is the part of a unit with Parts, in its side watermark.
	fieldPart = "part"
	// pathKeys are the _ids of the documents to which a part contributes. It has an index.
	pathKeys = fieldPart + "." + model.FieldDocuments + "." + model.FieldKey
)

// errNoRecord says that the engine has not written the side watermark of a unit with Parts.
var errNoRecord = errors.New("the record in collection " + watermarksCollection + " has no valid " + model.FieldLastEventID + ", or its " + fieldPart + " is no document: it is not one of Penstock")

// recordWithoutPart projects the state of a unit with Parts, without its part.
var recordWithoutPart = build(48).int(model.FieldLastEventID, 1).int(fieldUpdatedAt, 1).raw()

// stateOfRecord is the state of a unit with Parts, whose side watermark is its record. Its
// document is the part.
func stateOfRecord(record bson.Raw) model.State {
	watermark, ok := watermarkOf(record)
	part := record.Lookup(fieldPart)
	document, isDocument := part.DocumentOK()
	if !ok || part.Type != 0 && !isDocument {
		return model.State{Err: errNoRecord}
	}
	at, _ := record.Lookup(fieldUpdatedAt).DateTimeOK()
	return model.State{Document: document, Watermark: watermark, UpdatedAt: at}
}

// recordUpdate makes the update of a record whose part was folded, or its insertion if there
// is none yet.
func recordUpdate(c *partChange, updatedAt int64) update {
	filter := build(192+len(c.AggregateID)).sideID(fieldID, &c.Unit)
	if !c.first {
		filter.int(model.FieldLastEventID, c.From)
	}
	b := build(len(c.Document)+96).document("$set").int(model.FieldLastEventID, c.To).millis(fieldUpdatedAt, updatedAt)
	if c.changed() && len(c.Document) > 0 {
		b.dst = bsoncore.AppendDocumentElement(b.dst, fieldPart, c.Document)
	}
	b.end()
	if c.changed() && len(c.Document) == 0 {
		b.document("$unset").string(fieldPart, "").end()
	}
	return update{filter: filter.raw(), change: b.raw(), upsert: c.first}
}

// contributing matches the records of a generation of a view whose parts contribute to some
// of these documents.
func contributing(u *model.Unit, keys []string) bson.Raw {
	size := 192
	for _, key := range keys {
		size += len(key) + 16
	}
	b := build(size).document(pathKeys).strings("$in", keys).end().string(fieldID+"."+fieldProjection, u.Projection)
	return b.int(fieldID+"."+fieldGeneration, u.Number()).raw()
}

// contributingUpTo matches those of the records of aggregates up to the given one.
func contributingUpTo(u *model.Unit, keys []string, last string) bson.Raw {
	bound := build(96+len(u.Projection)+len(last)).document(fieldID).
		document("$lt").string(fieldProjection, u.Projection).string(fieldAggregateID, last).document(fieldGeneration).end().end().
		end().raw()
	all := contributing(u, keys)
	return build(len(all) + len(bound)).elements(all).elements(bound).raw()
}

// keysIn reads the _ids of the documents to which the part of a record contributes.
func keysIn(record bson.Raw) ([]string, error) {
	documents, ok := record.Lookup(fieldPart, model.FieldDocuments).ArrayOK()
	if !ok {
		return nil, nil
	}
	contributions, err := documents.Values()
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, contribution := range contributions {
		document, _ := contribution.DocumentOK()
		if key, ok := document.Lookup(model.FieldKey).StringValueOK(); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
