package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// Options make an [Engine].
type Options struct {
	// Targets are what events are folded into, until [Engine.Set] replaces them. With
	// none, all events stay Pending until the first Set.
	Targets []Target
	Store   Store
	Parking Parking
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
	// Trusted reports whether other processes still count on this one to know the targets; nil
	// means always. It is asked after the writes. If it gives an error, no event is Done:
	// others may have changed the targets since, without waiting for this process.
	Trusted func() error
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
	store     Store
	parking   Parking
	repairer  Repairer
	strict    bool
	reachable func(context.Context) error
	trusted   func() error
	judge     Judge
	metrics   *metrics
	log       zerolog.Logger
	attempt   time.Duration

	pauseLocks pauseLocks
	newcomers  newcomers
	calls      calls
	setting    sync.Mutex
	targets    atomic.Pointer[snapshot]
}

// NewEngine checks the options.
func NewEngine(o Options) (*Engine, error) {
	var problems []error
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
	e := &Engine{
		store:     o.Store,
		parking:   o.Parking,
		repairer:  o.Repairer,
		strict:    sequence == event.SequenceStrict,
		metrics:   newMetrics(o.Registerer),
		reachable: o.Reachable,
		trusted:   o.Trusted,
		judge:     o.Judge,
		log:       o.Log,
		attempt:   cmp.Or(o.Attempt, 10*time.Second),
	}
	if len(o.Targets) > 0 {
		if err := e.Set(o.Targets); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Process projects events into every projection and answers for each of them, in
// the order given. The targets are those of the moment at which it begins. Events of several aggregates may be mixed; those of one
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
	return e.process(ctx, nil, events, gaps)
}

// process is Process for a session; nil for none.
func (e *Engine) process(ctx context.Context, s *Session, events []*event.Event, gaps Gaps) ([]Result, error) {
	targets, end := e.begin()
	defer end()
	b := e.newBatch(targets, s, events, gaps)
	if b.targets == nil {
		return make([]Result, len(events)), errNoTargets
	}
	err := b.run(ctx)
	b.count(tracing.EventsOf(ctx))
	return b.trustedResults(err)
}
