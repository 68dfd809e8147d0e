package eventstore

import (
	"bytes"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Position is an event's place in the order of the index {aggregateId, eventId}. As a
// bound of a range, the zero value is the beginning (from) or the end (until).
type Position struct {
	// AggregateID and EventID are as the store has them. A value whose Type is 0 is a
	// missing field, which the index keeps as null.
	AggregateID, EventID bson.RawValue
}

var (
	_ bson.Marshaler   = Position{}
	_ bson.Unmarshaler = (*Position)(nil)
)

// Before is the position before all events of an aggregate.
func Before(aggregateID bson.RawValue) Position {
	return Position{AggregateID: aggregateID, EventID: bson.RawValue{Type: bson.TypeMinKey}}
}

// At is the position of an event.
func At(aggregateID bson.RawValue, eventID int64) Position {
	return Position{AggregateID: aggregateID, EventID: bson.RawValue{Type: bson.TypeInt64, Value: bsoncore.AppendInt64(nil, eventID)}}
}

// After is the position after all events of an aggregate.
func After(aggregateID bson.RawValue) Position {
	return Position{AggregateID: aggregateID, EventID: bson.RawValue{Type: bson.TypeMaxKey}}
}

// IsZero reports whether p is the zero value.
func (p Position) IsZero() bool { return p.AggregateID.Type == 0 && p.EventID.Type == 0 }

// Equal reports whether p and other are the same position with the same types.
func (p Position) Equal(other Position) bool {
	return p.AggregateID.Equal(other.AggregateID) && p.EventID.Equal(other.EventID)
}

// String shows the position in logs: its aggregate id, or "the beginning or the end".
func (p Position) String() string {
	if p.IsZero() {
		return "the beginning or the end"
	}
	return fmt.Sprintf("%s event %s", p.AggregateID, p.EventID)
}

// The fields of a position in BSON.
const (
	fieldAggregateID = "aggregateId"
	fieldEventID     = "eventId"
)

// MarshalBSON makes a document of the position that keeps the types of its values. A
// missing value is a missing field, so the zero position is an empty document.
func (p Position) MarshalBSON() ([]byte, error) {
	document := make(bson.D, 0, 2)
	if p.AggregateID.Type != 0 {
		document = append(document, bson.E{Key: fieldAggregateID, Value: p.AggregateID})
	}
	if p.EventID.Type != 0 {
		document = append(document, bson.E{Key: fieldEventID, Value: p.EventID})
	}
	return bson.Marshal(document)
}

// UnmarshalBSON reads what MarshalBSON wrote. It copies the bytes that it keeps.
func (p *Position) UnmarshalBSON(data []byte) error {
	elements, err := bson.Raw(bytes.Clone(data)).Elements()
	if err != nil {
		return fmt.Errorf("read a position: %w", err)
	}
	*p = Position{}
	for _, e := range elements {
		switch e.Key() {
		case fieldAggregateID:
			p.AggregateID = e.Value()
		case fieldEventID:
			p.EventID = e.Value()
		default:
			return fmt.Errorf("read a position: it has the unknown field %q", e.Key())
		}
	}
	return nil
}
