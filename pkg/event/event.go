package event

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Keys identify and route an event, in the forms that the topic and the read models use.
type Keys struct {
	// AggregateID is the canonical string of the source's aggregateId.
	AggregateID string
	// AggregateType is empty if the source has none.
	AggregateType string
	// EventID rises by one within its aggregate, from [Fields.FirstEventID].
	EventID int64
	// EventType is never empty.
	EventType string
}

// MaxKeyBytes bounds aggregateId, aggregateType and eventType each. All three are
// application properties: Service Bus allows 32 KiB for one property and 64 KiB for the
// header of a message.
const MaxKeyBytes = 8 << 10

// Event is one event of the store. It is not copied: every raw value and Document alias the
// bytes that the event was read from, and are valid only while those bytes do not change.
type Event struct {
	Keys
	// RawAggregateID is aggregateId with its type in the source, for queries on the event
	// store.
	RawAggregateID bson.RawValue
	// Timestamp is when the event happened, in UTC; zero if the source has none. The zero time
	// can also be stored: it is the least date of .NET. HasTimestamp distinguishes them.
	Timestamp time.Time
	// Payload and Metadata have Type 0 if the source has none.
	Payload  bson.RawValue
	Metadata bson.RawValue
	// Document is the whole source document.
	Document bson.Raw

	// numbered is set if the event id was read.
	numbered bool
	// timed is set if the source has a timestamp. timestampForm describes one that cannot be
	// read.
	timed         bool
	timestampForm string
}

// HasEventID reports whether the source has an event id that keeps the contract.
func (e *Event) HasEventID() bool { return e.numbered || e.EventID != 0 }

// OlderUUID reports whether the aggregate id is a binary of subtype 3, whose text depends on the
// reader's [UUIDRepresentation].
func (e *Event) OlderUUID() bool {
	return e.RawAggregateID.Type == bson.TypeBinary && e.RawAggregateID.Value[4] == bson.TypeBinaryUUIDOld
}

// HasTimestamp reports whether the source has a timestamp that can be read.
func (e *Event) HasTimestamp() bool { return e.timed || !e.Timestamp.IsZero() }

// UnreadableTimestamp describes an ambiguous timestamp in the source, such as a number; empty
// if the event has a timestamp or none. Such an event keeps the contract and has no time.
func (e *Event) UnreadableTimestamp() string { return e.timestampForm }
