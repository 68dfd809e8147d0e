package query

import "context"

// Key is an aggregate in a projection.
type Key struct {
	Projection, AggregateID string
}

// Status is what is known of a key.
type Status struct {
	// Watermark is the last event in the read model of the live generation; 0 if there is
	// none.
	Watermark int64
	// Building says that the projection has no live generation yet: its first one is being
	// built.
	Building bool
	// Parked is where the aggregate is parked; nil if it is not.
	Parked *Parked
}

// Parked is where an aggregate is parked, and why.
type Parked struct {
	EventID int64  `json:"eventId"`
	Reason  string `json:"reason"`
	// Resumes is whether the aggregate goes on by itself when the reason has gone.
	Resumes bool `json:"resumes"`
}

// Source is where the answers come from. It is safe for concurrent use.
type Source interface {
	// Projections are the names that can be asked about.
	Projections() []string
	// Look gives the status of each key, in the order given.
	Look(ctx context.Context, keys []Key) ([]Status, error)
	// Head gives the last event of an aggregate in the event store; 0 if there is none.
	Head(ctx context.Context, aggregateID string) (int64, error)
}

// result gives the result for an event of the key: applied, parked or pending.
func (s *Status) result(eventID int64) Result {
	switch {
	case s.Building:
		return Pending
	case s.Watermark >= eventID:
		return Applied
	case s.Parked != nil && (s.Parked.Resumes || s.Parked.EventID > s.Watermark && s.Parked.EventID <= eventID):
		// A permanent marker of an event that the read model has keeps nothing back.
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
	// ParkedResult: the aggregate is parked before the event, or at it.
	ParkedResult Result = "parked"
	// Timeout: the time was over.
	Timeout Result = "timeout"
	// Pending: a pair of a request that was answered before the time was over, because
	// another pair is parked.
	Pending Result = "pending"
)
