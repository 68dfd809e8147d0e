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
	// AggregateType is empty where the source has none.
	AggregateType string
	// EventID is positive and rises within its aggregate.
	EventID int64
	// EventType is never empty.
	EventType string
}

// Event is one event of the store, read in place: every raw value and Document
// alias the bytes that it was read from and are valid only as long as those are
// left alone.
type Event struct {
	Keys
	// RawAggregateID is aggregateId with its source type, as a query on the event
	// store needs it.
	RawAggregateID bson.RawValue
	// Timestamp is when the event happened; zero where the source has none.
	Timestamp time.Time
	// Payload and Metadata have Type 0 where the source has none.
	Payload  bson.RawValue
	Metadata bson.RawValue
	// Document is the whole source document.
	Document bson.Raw
}

// Reader reads events out of source documents, without decoding them. It is
// immutable and safe for concurrent use.
type Reader struct {
	fields Fields
}

// NewReader makes a reader for documents that name their fields so. It fails
// where a name is empty, dotted or used twice.
func NewReader(fields Fields) (*Reader, error) { panic("pending") }

// Read reads the event in doc in one pass over its top-level elements. What
// breaks the contract is a [*ContractError].
func (r *Reader) Read(doc bson.Raw) (Event, error) { panic("pending") }
