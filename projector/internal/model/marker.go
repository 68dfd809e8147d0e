package model

import "go.mongodb.org/mongo-driver/v2/bson"

// Marker is what is known of a parked unit.
type Marker struct {
	Unit
	// RawAggregateID is the aggregate's id with its type in the event store. A marker
	// that resumes needs it.
	RawAggregateID bson.RawValue
	// Reason is one of a fixed set, Error the text of what happened.
	Reason, Error string
	// Resumes is whether the unit is resumed by itself once the reason has gone.
	Resumes bool
	// EventID is the event that failed or is missing. Head is the last event of the
	// aggregate that was seen.
	EventID, Head int64
}

// Position says where a unit is parked. The zero value is a unit that is not parked.
type Position struct {
	// EventID is the event that the unit is parked at.
	EventID int64
	// Resumes is whether the unit is resumed by itself.
	Resumes bool
}

// Head is how far the events of a parked unit were acknowledged.
type Head struct {
	Unit
	EventID int64
}
