package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Store loads and writes read models. Load and Write answer element by element in the
// order asked; an error of the whole call is transient. The units of a call are of one
// projection.
type Store interface {
	// Load may defer units, but not all of them: it waits until it can load one.
	Load(ctx context.Context, units []model.Unit) ([]model.State, error)
	// Release says that the documents of a Load are no longer used. The engine calls it
	// once for each Load without an error, and loads nothing more before that.
	Release(loaded []model.State)
	Write(ctx context.Context, writes []model.Write) ([]model.Written, error)
}

// Parking keeps the list of parked units. Every call is one request for all of its
// units, as far as the list allows it.
type Parking interface {
	// Parked gives the position of each unit. The engine asks where it has to: before
	// it treats a gap as one and, in an increasing sequence, for all units.
	Parked(ctx context.Context, units []model.Unit) ([]model.Position, error)
	// Park parks units durably. Parking a unit twice for the same reason at the same
	// event changes nothing.
	Park(ctx context.Context, parked []model.Marker) error
	// Advance notes durably that the events of parked units up to their heads were
	// acknowledged without being applied. It is an error if one of the units is not
	// parked, or no longer: its events must not be acknowledged then.
	Advance(ctx context.Context, heads []model.Head) error
}

// Judge keeps a projection that is wrong from parking every aggregate that it
// touches.
type Judge interface {
	// Good counts an event that the projection's rule for its type could be applied to.
	Good(projection, eventType string)
	// Bad reports whether the aggregate may be parked for the failure now. Otherwise its
	// events stay Pending, and the same failure asks again when they are tried again.
	Bad(failure *Error) bool
}

// Repairer reads what the topic did not bring from the event store.
type Repairer interface {
	// Missing reads at most limit of the events from ≤ eventId ≤ to of the aggregate
	// of ev, in order. Fewer means that the store has no more of them.
	Missing(ctx context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error)
}

// Verdict says what the message of an event deserves.
type Verdict uint8

// The verdicts.
const (
	// Pending: not finished, because a store did not answer, another document holds a
	// value that has to be unique, other processes keep writing, or the context ended.
	// Do not settle: offer it again later, or give it back.
	Pending Verdict = iota
	// Done: every projection is durably done with it (applied, duplicate, ignored, or
	// acknowledged for a parked unit). Complete the message.
	Done
	// Poison: as Done, but this event has parked its aggregate in at least one
	// projection. Dead-letter the message, for visibility.
	Poison
	// Held: an earlier event of the aggregate is missing. Hold it, offer it again with
	// its predecessor or with [Repair], or give it back.
	Held
)

// Result is what became of one event over all projections.
type Result struct {
	Verdict Verdict
	// Missing is, for Held, the first event that is missing; the last one is the
	// predecessor of this event or of an earlier one in the batch.
	Missing int64
	// Causes are, for Poison, the errors that parked the aggregate.
	Causes []*Error
	// Answered is whether the store of the read models took a write for the event in this
	// call, or refused one because another document holds a unique value. Either shows
	// that the store works.
	Answered bool
}

// Gaps says what to do about a gap, and about a unit that cannot go on.
type Gaps uint8

// The ways.
const (
	// Hold leaves the events after a gap alone.
	Hold Gaps = iota
	// Repair reads the missing events from the event store.
	Repair
	// Park does what Repair does, and then parks the units that still cannot go on:
	// with [ReasonMissing] where the event store has the gap too, with
	// [ReasonUnavailable] where a store failed. Their events are Done: the event store
	// has them, and the units are resumed from it. A unit whose document conflicts with
	// another one's unique value is parked with [ReasonRejected].
	Park
)

// Options make an [Engine].
type Options struct {
	// Projections have unique names and collections; at least one.
	Projections []*Projection
	Store       Store
	Parking     Parking
	// Repairer may be nil: gaps then stay until their events arrive.
	Repairer Repairer
	// Judge may be nil: aggregates are parked at once then.
	Judge Judge
	// Sequence defaults to strict.
	Sequence event.Sequence
	// Reachable reports whether the read models' store can be reached at all; nil means
	// that it always can. If it cannot, [Park] parks nothing as unavailable: no unit
	// could go on, and every unit would end up in the list.
	Reachable func(ctx context.Context) error
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
	Log        zerolog.Logger
	// Attempt bounds the wait for one answer of the store or the event store; default
	// 10 s.
	Attempt time.Duration
}

// ErrContended says that the writes of some aggregates kept meeting other writers:
// either another process holds their sessions too, or a process that was killed has
// left a transaction open. Give the events back.
var ErrContended = errors.New("writes keep conflicting: another process writes the same read models, or the open transaction of a killed process holds them until MongoDB ends it (transactionLifetimeLimitSeconds, 60 s by default)")

// Engine projects batches of events. It is safe for concurrent use; two calls
// with events of one aggregate at once are correct, but one of them folds in vain.
type Engine struct {
	projections []*Projection
	store       Store
	parking     Parking
	repairer    Repairer
	strict      bool
	reachable   func(context.Context) error
	judge       Judge
	metrics     *metrics
	log         zerolog.Logger
	attempt     time.Duration
}

// NewEngine checks the options.
func NewEngine(o Options) (*Engine, error) {
	var problems []error
	if err := CheckSet(o.Projections); err != nil {
		problems = append(problems, err)
	}
	if o.Store == nil || o.Parking == nil {
		problems = append(problems, errors.New("store and parking are required"))
	}
	sequence := cmp.Or(o.Sequence, event.SequenceStrict)
	if sequence != event.SequenceStrict && sequence != event.SequenceIncreasing {
		problems = append(problems, fmt.Errorf("unknown sequence %q", o.Sequence))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("make projection engine: %w", errors.Join(problems...))
	}
	return &Engine{
		projections: slices.Clone(o.Projections),
		store:       o.Store,
		parking:     o.Parking,
		repairer:    o.Repairer,
		strict:      sequence == event.SequenceStrict,
		metrics:     newMetrics(o.Registerer, o.Projections),
		reachable:   o.Reachable,
		judge:       o.Judge,
		log:         o.Log,
		attempt:     cmp.Or(o.Attempt, 10*time.Second),
	}, nil
}

// Process projects events into every projection and answers for each of them, in
// the order given. Events of several aggregates may be mixed; those of one
// aggregate are taken in the order of their ids, so an event that was held is
// simply given again along with what came since.
//
// Process makes one attempt. It does not wait between requests: a unit that meets a
// transient error leaves its events Pending, and the error says why. The caller
// decides when it tries again. The error is ctx's cause if ctx ended, and includes
// [ErrContended] if writes stay stale. Either way the results stand: what is not
// Pending is durable. The events' bytes must stay untouched for good: a write may
// still be under way when Process returns.
func (e *Engine) Process(ctx context.Context, events []*event.Event, gaps Gaps) ([]Result, error) {
	b := e.newBatch(events, gaps)
	err := b.run(ctx)
	b.count()
	return b.results(), err
}
