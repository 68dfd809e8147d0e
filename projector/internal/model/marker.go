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

// Position says at which event a unit is parked.
type Position struct {
	// EventID is the event at which the unit is parked; [Unit.NoEvent] if it is not parked.
	EventID int64
	// Resumes is set if the unit resumes by itself.
	Resumes bool
	// Reason is empty if the unit is not parked.
	Reason string
}

// Head is the last acknowledged event of a parked unit.
type Head struct {
	Unit
	EventID int64
}

// Claimed is a marker that this process is resuming.
type Claimed struct {
	Projection, AggregateID string
	// Generation is the generation of the projection; 0 means the first one.
	Generation int64
	// RawAggregateID is the aggregate's id with its type in the event store.
	RawAggregateID bson.RawValue
	// Head is the last event that was acknowledged for the aggregate, as of the claim.
	Head int64
	// Attempts counts the attempts in a row without progress.
	Attempts int
	// Claim identifies the claim.
	Claim bson.ObjectID
}

// Failure is the reason why an aggregate could not be resumed.
type Failure struct {
	// Reason, Error and EventID are as in [Marker].
	Reason, Error string
	EventID       int64
	// Attempts counts the attempts in a row without progress, including this one. The
	// wait until the next attempt doubles with each of them.
	Attempts int
	// Seldom is as in [Marker].
	Seldom bool
}
