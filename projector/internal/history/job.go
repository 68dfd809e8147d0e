package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Params are the parameters of a job.
type Params struct {
	// GraceMillis is how long an aggregate may be behind before it is folded, or is a finding:
	// the time that an event may take through the topic. Zero means none for a sweep, and 30 s
	// for a verification.
	GraceMillis int64 `bson:"graceMillis,omitempty"`
	// Sample is the share of the aggregates that a verification checks, more than 0 and at most
	// 1; 0 means all. The choice depends only on the aggregate's id, so every process and every
	// job chooses the same aggregates.
	Sample float64 `bson:"sample,omitempty"`
	// Aggregate is the only aggregate that a verification checks; empty means all.
	Aggregate string `bson:"aggregate,omitempty"`
	// Repair makes a verification repair wrong read models.
	Repair bool `bson:"repair,omitempty"`
}

func readParams(j job.Job) (p Params, err error) {
	if j.Params != nil {
		if err := bson.Unmarshal(j.Params, &p); err != nil {
			return p, job.Permanent(fmt.Errorf("read the parameters of job %s: %w", j.ID, err))
		}
	}
	return p, nil
}

// grace is GraceMillis.
func (p *Params) grace() time.Duration { return time.Duration(p.GraceMillis) * time.Millisecond }

// span is a part of a job, and how far the work on it has come. No aggregate is in two spans of the
// event store of one plan.
type span struct {
	// Direction is what the work walks over: one of the constants below.
	Direction string `bson:"direction"`
	// From and Until bound a span of the event store; zero is the beginning and the end.
	From, Until eventstore.Position
	// Since is a cluster time from before a build or a sweep was planned. The worker sees every
	// event up to it.
	Since bson.Timestamp
	// position is where the work continues, and counts are those up to it.
	position position
	counts   map[string]int64
}

// The directions of a span. Builds and sweeps have only the first one.
const (
	forward    = "events"
	documents  = "documents"
	watermarks = "watermarks"
	// absent looks for documents that a view lacks.
	absent = "absent documents"
	single = "aggregate"
)

// position is a position in a span: in the event store, or after a document or a side watermark.
type position struct {
	Events eventstore.Position `bson:"events"`
	After  string              `bson:"after"`
}

// start is the position in the event store to read from.
func (s span) start() eventstore.Position {
	if s.position.Events.IsZero() {
		return s.From
	}
	return s.position.Events
}

// decode reads a stored range.
func decode(j job.Job, r job.Range) (span, error) {
	s := span{counts: r.Counts}
	err := bson.Unmarshal(r.Part, &s)
	if err == nil && r.Position != nil {
		err = bson.Unmarshal(r.Position, &s.position)
	}
	if err != nil {
		return s, job.Permanent(fmt.Errorf("read range %d of job %s: %w", r.Index, j.ID, err))
	}
	return s, nil
}

// savePosition stores a position in a span, and the counts up to it.
func savePosition(ctx context.Context, p job.Progress, at position, counts map[string]int64) error {
	raw, err := bson.Marshal(at)
	if err != nil {
		return fmt.Errorf("store the position of a range: %w", err)
	}
	return p.Save(ctx, raw, counts)
}

// The counts of a range.
const (
	// CountEvents is how many events were read or compared: the unit of a plan's total.
	CountEvents = "events"
	// CountAggregates is how many aggregates were read or checked.
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

var (
	// ErrUnknownTarget says that this process does not serve the generation. Another
	// process may.
	ErrUnknownTarget = errors.New("this process does not serve the generation")
	// ErrMostlyFailing says that most aggregates of a range cannot be folded, so the
	// definition is wrong, not the events. A retry does not help.
	ErrMostlyFailing = errors.New("most aggregates cannot be folded")
)

// asJob translates an error to those of the job's runner.
func asJob(err error) error {
	switch {
	case errors.Is(err, ErrUnknownTarget), errors.Is(err, model.ErrSuperseded):
		return fmt.Errorf("%w: %w", job.ErrNotHere, err)
	case errors.Is(err, ErrMostlyFailing), errors.Is(err, errReplaceable), errors.Is(err, eventstore.ErrIndex), errors.Is(err, eventstore.ErrFirstID):
		return job.Permanent(err)
	}
	return err
}
