package event

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Keys are what identifies and routes an event, in the forms that the topic and
// the read models use.
type Keys struct {
	// AggregateID is the canonical string of the source's aggregateId.
	AggregateID string
	// AggregateType is empty if the source has none.
	AggregateType string
	// EventID is positive and rises within its aggregate.
	EventID int64
	// EventType is never empty.
	EventType string
}

// MaxKeyBytes bounds aggregateId, aggregateType and eventType each. The three
// travel as application properties, which Service Bus limits to 32 KiB for one
// and 64 KiB for the message's header.
const MaxKeyBytes = 8 << 10

// Event is one event of the store, read in place: every raw value and Document
// alias the bytes that it was read from and are valid only as long as those are
// left alone.
type Event struct {
	Keys
	// RawAggregateID is aggregateId with its source type, as a query on the event
	// store needs it.
	RawAggregateID bson.RawValue
	// Timestamp is when the event happened, in UTC; zero if the source has none.
	Timestamp time.Time
	// Payload and Metadata have Type 0 if the source has none.
	Payload  bson.RawValue
	Metadata bson.RawValue
	// Document is the whole source document.
	Document bson.Raw
}
