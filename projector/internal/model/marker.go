package model

import "go.mongodb.org/mongo-driver/v2/bson"

// Marker describes a parked unit.
type Marker struct {
	Unit
	// RawAggregateID is the aggregate's id with its type in the event store. A marker
	// that resumes needs it.
	RawAggregateID bson.RawValue
	// Reason is one of a fixed set. Error is the text of the error.
	Reason, Error string
	// Resumes is set if the unit resumes by itself once the reason is gone. Seldom is set
	// if that mostly needs somebody to act, so that attempts are rare.
	Resumes, Seldom bool
	// EventID is the event that failed or is missing. Head is the last event of the
	// aggregate that was seen.
	EventID, Head int64
}

// Position says at which event a unit is parked. The zero value means that it is not
// parked.
type Position struct {
	// EventID is the event at which the unit is parked.
	EventID int64
	// Resumes is set if the unit resumes by itself.
	Resumes bool
}

// Head is the last acknowledged event of a parked unit.
type Head struct {
	Unit
	EventID int64
	// Passed is the read model's watermark if that has passed the event at which the unit is
	// parked, so that the unit can resume immediately; otherwise 0.
	Passed int64
}
