package refold

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// Job is the job of a range.
type Job struct {
	ID         string
	Projection string
	Generation int64
	// Grace is, for sweeps, how long an aggregate may be behind before it is folded: the
	// time that an event may take through the topic. Zero means none.
	Grace time.Duration
}

// Range is a part of the event store. No aggregate is in two ranges of one plan.
type Range struct {
	// From and Until bound the range; zero is the beginning and the end.
	From, Until eventstore.Position
	// Since is a cluster time from before the work was planned. The worker sees every
	// event up to it.
	Since bson.Timestamp
	// Position is where the work continues; zero at the beginning.
	Position eventstore.Position
	// Counts are the counts of the range up to Position.
	Counts map[string]int64
}

// from is the position to read from.
func (r Range) from() eventstore.Position {
	if r.Position.IsZero() {
		return r.From
	}
	return r.Position
}

// The counts of a range.
const (
	// CountEvents is how many events were read: the unit of a plan's total.
	CountEvents = "events"
	// CountAggregates is how many aggregates were read.
	CountAggregates = "aggregates"
	// CountWritten is how many aggregates were written.
	CountWritten = "written"
	// CountParked is how many aggregates are parked because they cannot be folded.
	CountParked = "parked"
	// CountFailed is how many of the parked aggregates have events that cannot be folded. It
	// is stored so that the process which continues a range knows the share that has failed.
	CountFailed = "failed"
	// CountUnreadable is how many documents break the event contract.
	CountUnreadable = "unreadable"
	// CountBehind is how many aggregates a sweep found behind the event store, and folded,
	// or found with a document of an older generation, which it removed. After a sweep with
	// 0, every aggregate is at its head or parked.
	CountBehind = "behind"
)

// Progress saves the progress of the work on a range.
type Progress interface {
	// Save stores the position from which another worker can continue, and the counts of
	// the range up to it. If it fails, the work must stop.
	Save(ctx context.Context, position eventstore.Position, counts map[string]int64) error
}

var (
	// ErrUnknownTarget says that this process does not serve the generation. Another
	// process may.
	ErrUnknownTarget = errors.New("this process does not serve the generation")
	// ErrMostlyFailing says that most aggregates of a range cannot be folded, so the
	// definition is wrong, not the events. A retry does not help.
	ErrMostlyFailing = errors.New("most aggregates cannot be folded")
)
