package readmodel

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// fieldPart is the part of a unit with Parts, in its side watermark.
const fieldPart = "part"

// errNoRecord says that the engine has not written the side watermark of a unit with Parts.
var errNoRecord = errors.New("the watermark has no valid " + model.FieldLastEventID + ", or its " + fieldPart + " is no document: it is not a watermark of Penstock")

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
