package eventstore

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Position is an event's place in the order of the index {aggregateId, eventId}. As a
// bound of a range, the zero value is the beginning (from) or the end (until).
type Position struct {
	// AggregateID and EventID are as the store has them. A value whose Type is 0 is a
	// missing field, which the index keeps as null.
	AggregateID bson.RawValue `bson:"aggregateId,omitempty"`
	EventID     bson.RawValue `bson:"eventId,omitempty"`
}

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
