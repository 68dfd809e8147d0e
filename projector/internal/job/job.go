package job

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kind is the kind of work of a job.
type Kind string

// The kinds.
const (
	// Build folds every aggregate of the event store into a generation.
	Build Kind = "build"
	// Sweep folds the aggregates that are behind the event store.
	Sweep Kind = "sweep"
	// Verify compares read models with the fold of their events.
	Verify Kind = "verify"
	// Reconcile finds and folds events that the topic has not delivered. It has workers of
	// its own, because it mostly waits.
	Reconcile Kind = "reconcile"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Build, Sweep, Verify, Reconcile} }

// State is the state of a job.
type State string

// The states.
const (
	// Planning: the ranges are not known yet.
	Planning State = "planning"
	// Running: the ranges are worked on.
	Running State = "running"
	// Done: every range is finished.
	Done State = "done"
	// Failed: a worker met a permanent error; Job.Reason has it.
	Failed State = "failed"
	// Cancelled: the job was cancelled; Job.Reason says why.
	Cancelled State = "cancelled"
)

// States returns all states.
func States() []State { return []State{Planning, Running, Done, Failed, Cancelled} }

// Ended reports whether a job in the state is over.
func (s State) Ended() bool { return s == Done || s == Failed || s == Cancelled }

// Job is one job. Its fields are those of its document; JSON, for commands, leaves out those
// that only the workers need.
type Job struct {
	// ID is unique. [Store.Create] makes one if it is empty.
	ID   string `bson:"_id" json:"id"`
	Kind Kind   `bson:"kind" json:"kind"`
	// Projection and Generation identify the read models on which the job works.
	Projection string `bson:"projection" json:"projection"`
	Generation int64  `bson:"generation" json:"generation"`
	// Params are for the worker alone; nil for none.
	Params bson.Raw `bson:"params,omitempty" json:"-"`
	State  State    `bson:"state" json:"state"`
	// Reason says why the job failed or was cancelled. While it runs, Reason is the last error
	// that a worker retries after.
	Reason string `bson:"reason,omitempty" json:"reason,omitempty"`
	// Who created the job, and Why.
	Who string `bson:"who,omitempty" json:"who,omitempty"`
	Why string `bson:"why,omitempty" json:"why,omitempty"`
	// The times are the server's. Progressed is the last time that a range was saved or
	// finished, or that the state changed.
	Created    time.Time `bson:"createdAt" json:"createdAt"`
	Started    time.Time `bson:"startedAt,omitempty" json:"startedAt,omitzero"`
	Progressed time.Time `bson:"progressedAt,omitempty" json:"progressedAt,omitzero"`
	Finished   time.Time `bson:"finishedAt,omitempty" json:"finishedAt,omitzero"`
	// Epoch counts the attempts to plan the job.
	Epoch int64 `bson:"epoch" json:"-"`
	// Counts are the workers' counts, summed over all ranges.
	Counts map[string]int64 `bson:"counts,omitempty" json:"counts,omitempty"`
	// Total is the approximate amount of work in the unit of the worker's first count; 0 if
	// that is not known.
	Total int64 `bson:"total" json:"total"`
	// Ranges is the number of ranges, RangesDone the number of finished ones.
	Ranges     int `bson:"ranges" json:"ranges"`
	RangesDone int `bson:"rangesDone" json:"rangesDone"`
	// Attempts counts the errors of planning in a row.
	Attempts int `bson:"attempts,omitempty" json:"-"`
}

// Range is a part of a job.
type Range struct {
	Job   string `bson:"job"`
	Index int    `bson:"index"`
	// Part is the worker's description of the range. Only the worker reads it.
	Part bson.Raw `bson:"part"`
	// Position is what the last save stored; nil if there was none. Work continues from
	// there.
	Position bson.Raw `bson:"position,omitempty"`
	// Counts are those of the last save, for the range from its start. Saved is its time, the server's.
	Counts map[string]int64 `bson:"counts,omitempty"`
	Saved  time.Time        `bson:"savedAt,omitempty"`
	// Holder is the process that has the lease, Epoch the fence of its requests.
	Holder string `bson:"holder,omitempty"`
	Epoch  int64  `bson:"epoch"`
	// LeaseUntil is when another process may take the range over.
	LeaseUntil time.Time `bson:"leaseUntil"`
	Done       bool      `bson:"done"`
	// Attempts counts the errors in a row since the last save.
	Attempts int `bson:"attempts"`
	// Reason is the last of them.
	Reason string `bson:"reason,omitempty"`
}

// Claim is a lease of this process: on a range, or on the planning of a job.
type Claim struct {
	Job Job
	// Planning says that the job is to be planned. Range is empty then.
	Planning bool
	Range    Range
	// Epoch is the fence of the lease.
	Epoch int64
}

// Errors that end the work on a range.
var (
	// ErrLost is returned if another process has the range, or if the lease may have
	// expired because no request about it was answered.
	ErrLost = errors.New("the lease of the range is lost")
	// ErrCancelled says that the job was cancelled, or has failed on another range.
	ErrCancelled = errors.New("the job has ended")
	// ErrNotHere is for workers: this process cannot work on the job, but another can.
	ErrNotHere = errors.New("this process cannot work on the job")
)

// Errors of the requests about a job.
var (
	// ErrNotFound says that there is no job with the id.
	ErrNotFound = errors.New("there is no such job")
	// ErrState says that the job's present state does not allow the change.
	ErrState = errors.New("the job's state does not allow it")
	// ErrExists says that another job has the id.
	ErrExists = errors.New("another job has the id")
)

// Permanent marks an error of a worker as permanent: the job fails. Any other error is
// retried with backoff, without a limit.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func isPermanent(err error) bool {
	_, permanent := errors.AsType[permanentError](err)
	return permanent
}

// stops reports whether an error ends the work on a range without being a failure.
func stops(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrCancelled)
}
