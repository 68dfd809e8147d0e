package query

import "context"

// Key is an aggregate in a projection.
type Key struct {
	Projection, AggregateID string
}

// Status is the status of a key.
type Status struct {
	// Watermark is the last event in the read model of the live generation; the id before
	// the first event if there is none.
	Watermark int64
	// Building is set if the projection has no live generation yet because its first one
	// is being built.
	Building bool
	// Parked is set if the aggregate is parked.
	Parked *Parked
}

// Parked says at which event an aggregate is parked, and why.
type Parked struct {
	EventID int64  `json:"eventId"`
	Reason  string `json:"reason"`
	// Resumes is set if the aggregate resumes by itself once the reason is gone.
	Resumes bool `json:"resumes"`
}

// Source reads the stored state. It must be safe for concurrent use.
type Source interface {
	// Projections returns the names of the projections that requests can use.
	Projections() []string
	// LookUp returns the status of each key, in the order of keys.
	LookUp(ctx context.Context, keys []Key) ([]Status, error)
	// Head returns the last event of an aggregate in the event store; the id before the
	// first event if there is none.
	Head(ctx context.Context, aggregateID string) (int64, error)
}

// result returns the result for an event of the key: applied, parked or pending.
func (s *Status) result(eventID int64) Result {
	switch {
	case s.Building:
		return Pending
	case s.Watermark >= eventID:
		return Applied
	case s.Parked != nil && (s.Parked.Resumes || s.Parked.EventID > s.Watermark && s.Parked.EventID <= eventID):
		// A permanent marker has no effect if the read model has its event.
		return ParkedResult
	}
	return Pending
}

// Result is the answer for a pair, or for all pairs of a request.
type Result string

// The results.
const (
	// Applied: the read model has the event.
	Applied Result = "applied"
	// ParkedResult: the aggregate is parked at the event or an earlier one.
	ParkedResult Result = "parked"
	// Timeout: the timeout of the request has passed.
	Timeout Result = "timeout"
	// Pending: the pair is not applied yet, and the request was answered before its
	// timeout because another pair is parked.
	Pending Result = "pending"
)
