package watch

import (
	"encoding/binary"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// The operation types that a stream of one collection carries.
// https://www.mongodb.com/docs/manual/reference/change-events/
const (
	opInsert       = "insert"
	opUpdate       = "update"
	opReplace      = "replace"
	opDelete       = "delete"
	opDrop         = "drop"
	opRename       = "rename"
	opDropDatabase = "dropDatabase"
	opInvalidate   = "invalidate"
	// opOther is the name of every other operation; the pipeline excludes them.
	opOther = "other"
)

// operations are all operation types, for the pipeline and for the metric's labels.
var operations = []string{opInsert, opUpdate, opReplace, opDelete, opDrop, opRename, opDropDatabase, opInvalidate}

// operationName gives the constant for s, so that the values of the label are bounded.
func operationName(s []byte) string {
	for _, op := range operations {
		if string(s) == op {
			return op
		}
	}
	return opOther
}

// change is a parsed change event. Its slices alias the raw event.
type change struct {
	operation   string
	token       bson.Raw
	documentKey bson.Raw
	document    bson.Raw
	time        bson.Timestamp
	// wall is the server's clock at the change.
	wall time.Time
}

var errNoToken = errors.New("change event without a resume token")

// parseChange parses raw in one pass over its top-level elements. Every slice of the result
// aliases raw.
func parseChange(raw bson.Raw) (change, error) {
	c := change{operation: opOther}
	if len(raw) < 5 || int(binary.LittleEndian.Uint32(raw)) != len(raw) {
		return c, errors.New("change event is not a BSON document")
	}
	rest := []byte(raw[4 : len(raw)-1])
	for len(rest) > 0 {
		element, after, ok := bsoncore.ReadElement(rest)
		if !ok {
			return c, errors.New("change event is cut short")
		}
		rest = after
		value := element.Value()
		switch string(element.KeyBytes()) {
		case "_id":
			c.token = documentOf(value)
		case "operationType":
			if value.Type == bsoncore.TypeString && len(value.Data) > 4 {
				c.operation = operationName(value.Data[4 : len(value.Data)-1])
			}
		case "clusterTime":
			c.time.T, c.time.I, _ = value.TimestampOK()
		case "wallTime":
			if ms, ok := value.DateTimeOK(); ok {
				c.wall = time.UnixMilli(ms)
			}
		case "fullDocument":
			c.document = documentOf(value)
		case "documentKey":
			c.documentKey = documentOf(value)
		}
	}
	if c.token == nil {
		return c, errNoToken
	}
	return c, nil
}

func documentOf(v bsoncore.Value) bson.Raw {
	doc, ok := v.DocumentOK()
	if !ok {
		return nil
	}
	return bson.Raw(doc)
}

// replaces reports whether an operation ends the collection that the stream follows, or
// replaces it by another one. The server sends an invalidate after each of the others. A
// position after any of them must not be saved: a stream that resumes there would follow the
// new collection without its earlier documents.
func replaces(operation string) bool {
	switch operation {
	case opDrop, opRename, opDropDatabase, opInvalidate:
		return true
	}
	return false
}
