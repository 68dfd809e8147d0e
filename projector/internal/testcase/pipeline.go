package testcase

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Pipeline is a projector with its own stores, which are empty at first.
type Pipeline interface {
	// Append adds an event to the event store.
	Append(document bson.Raw) error
	// Deliver passes events to the projector as one batch of messages, and returns after
	// all of them are done. Events are numbered in the order of Append, from 0.
	Deliver(ctx context.Context, events []int) error
	// CrashAfterWrites makes the projector crash after each write. Deliver restarts it.
	CrashAfterWrites()
	// Rebuild folds all events of the event store into a new generation of every
	// projection. Afterwards, State returns the state of the new generation.
	Rebuild(ctx context.Context) error
	// State returns the state after the events so far.
	State() State
}

// State is the state of a projector's read models and parked list.
type State struct {
	// Documents are whole read model documents by projection and aggregate, without two
	// fields of the engine: the generation and the time of the last change.
	// Those of a view are by the key instead of the aggregate.
	Documents map[string]map[string]bson.Raw
	Parked    []Parked
	// Homeless are the aggregates of each view whose parts contribute to no document.
	Homeless map[string][]string
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
