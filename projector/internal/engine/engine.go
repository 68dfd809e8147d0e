package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Options configure an [Engine].
type Options struct {
	Store    Store
	Parking  Parking
	Repairer Repairer
	// Reachable reports whether the read models' store can be reached; nil means always. If
	// it cannot be reached, [Engine.Resume] parks nothing as unavailable, because every unit
	// would be parked.
	Reachable func(ctx context.Context) error
	// Trusted reports whether other processes still count on this one to know the targets;
	// nil means always. It is called after the writes. If it returns an error, no event is
	// Done, because others may have changed the targets without waiting for this process.
	Trusted func() error
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
	Log        zerolog.Logger
}

// ErrContended says that the writes of some aggregates repeatedly conflicted with other
// writers. Either another process holds their sessions too, or a killed process has left
// a transaction open. The caller must release the events' messages.
var ErrContended = errors.New("writes keep conflicting: another process writes the same read models, or the open transaction of a killed process holds them until a projector or MongoDB ends it")

// Engine projects batches of events. It is safe for concurrent use. Two concurrent calls
// with events of one aggregate are correct, but one of them folds for nothing.
type Engine struct {
	store     Store
	parking   Parking
	repairer  Repairer
	reachable func(context.Context) error
	trusted   func() error
	metrics   *metrics
	log       zerolog.Logger

	pauseLocks pauseLocks
	// swelling holds a token while a track folds and writes documents that grow far beyond
	// their events.
	swelling  chan struct{}
	newcomers newcomers
	// answered is when the store of the read models last accepted a write, or refused one for
	// its content, in nanoseconds since 1970.
	answered atomic.Int64
	setting  sync.Mutex
	targets  atomic.Pointer[snapshot]
}

// New makes an engine. The outcome of all events is Retry until the first [Engine.Set].
func New(o Options) *Engine {
	return &Engine{
		store:     o.Store,
		parking:   o.Parking,
		repairer:  o.Repairer,
		metrics:   newMetrics(o.Registerer),
		reachable: o.Reachable,
		trusted:   o.Trusted,
		log:       o.Log,
		swelling:  make(chan struct{}, 1),
	}
}

// Process projects events into every projection and returns a verdict for each, in the same
// order. It uses the targets at its beginning. Events of several aggregates may be mixed;
// those of one aggregate are applied in the order of their ids. So the caller offers an
// event after a gap again together with later events.
//
// Process makes one attempt. It does not wait between requests: if a store does not answer,
// the outcome of a unit's events is Retry, and the error says why. The caller decides when
// to try again. since is when its events could not be finished for the first time; zero for
// events that are new. If the store answers and a unit cannot go on, Process parks it. The
// error is ctx's cause if ctx ended, and includes [ErrContended] if writes stay stale. The
// verdicts are valid in each case: every outcome but Retry is durable. The events' bytes must never change, because a write may still be running when
// Process returns.
func (e *Engine) Process(ctx context.Context, events []*event.Event, since time.Time) ([]model.Verdict, error) {
	return e.process(ctx, nil, events, since)
}

// process is Process for a session; nil means no session.
func (e *Engine) process(ctx context.Context, s *Session, events []*event.Event, since time.Time) ([]model.Verdict, error) {
	targets := e.snapshot()
	b := e.newBatch(targets, s, events, since)
	if b.targets == nil {
		return make([]model.Verdict, len(events)), errNoTargets
	}
	err := b.run(ctx)
	b.count(tracing.EventsOf(ctx))
	return b.verdicts(err)
}
