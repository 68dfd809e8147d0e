package testcase

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Pipeline is a projector with stores of its own, empty at first.
type Pipeline interface {
	// Append adds an event to the event store.
	Append(document bson.Raw) error
	// Deliver brings events to the projector, as one batch of messages, and returns when it
	// is done with each of them. Events are named by their number in the order of Append,
	// from 0.
	Deliver(ctx context.Context, events []int) error
	// CrashAfterWrites makes the projector end after each write. Deliver starts it again.
	CrashAfterWrites()
	// Rebuild folds all events of the event store into a new generation of every
	// projection. State is that of the new generation afterwards.
	Rebuild(ctx context.Context) error
	// State is what the projector has made of the events so far.
	State() State
}

// State is what a projector has made of events.
type State struct {
	// Documents are whole read model documents by projection and aggregate, without the
	// engine's fields that say how a document came about: its generation and the time of its
	// last change.
	Documents map[string]map[string]bson.Raw
	Parked    []Parked
}

// Parked is an aggregate that is parked in a projection.
type Parked struct {
	Projection, AggregateID string
	EventID                 int64
	Reason, Error           string
}

func (s State) document(projection, aggregate string) bson.RawValue {
	document := s.Documents[projection][aggregate]
	if document == nil {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
}

func (s State) parked(projection, aggregate string) *Parked {
	for i := range s.Parked {
		if p := &s.Parked[i]; p.Projection == projection && p.AggregateID == aggregate {
			return p
		}
	}
	return nil
}
