package term

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// loopSilence is the time without a heartbeat after which a loop counts as stuck.
const loopSilence = 30 * time.Second

// Options are what the terms of a process work with. All are required but Tracer.
type Options struct {
	Config     config.Config
	Health     *health.Health
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
	Tracer     *tracing.Messages

	// Events and History read the event store. Collection reads which collection has its name
	// now.
	Events     watch.Source
	History    Source
	Collection func(context.Context) (mongox.CollectionID, error)
	// Connect opens a connection to the topic.
	Connect publish.Connect

	Checkpoints *checkpoint.Store
	Quarantine  *quarantine.Store
}

// Runner runs the terms of a process. Make it with [New].
type Runner struct {
	options Options

	reader *event.Reader
	start  config.StartPoint

	watching   watch.Options
	scanning   ScanOptions
	publishing publish.Options
	saving     checkpoint.SaverConfig

	// access decides whether a refusal by MongoDB that ended a term ends the process, standby
	// whether one that guard meets does, and storing whether a refusal of the quarantine does:
	// meanwhile every term reads the event store.
	access, standby, storing *mongox.Access
	// idle ends the liveness check of the stream, and ended ends the checks of the term's
	// other loops and of the topic, until the next term.
	idle, ended func()

	// identity is this process's pipeline without the UUID of its collection, which
	// [Options.Collection] reads.
	identity checkpoint.Identity

	// stretch is how long a scan reads before it follows the change stream for the part
	// that is scanned; zero means [scanStretch].
	stretch time.Duration

	// exists says that the events collection has been found once. absent is the time since which
	// it is missing; nil if it is there.
	exists atomic.Bool
	absent atomic.Pointer[time.Time]

	*metrics
}

// New makes the runner of the terms of a process, and registers their health with
// o.Health. Call [Runner.AwaitPipeline] before [Runner.Run].
func New(o Options) (*Runner, error) {
	c, h := o.Config, o.Health
	reader := event.NewReader(c.EventFields())
	start, err := c.Stream.StartPoint()
	if err != nil {
		return nil, err
	}
	stream, dispatcher := h.Loop("stream", loopSilence), h.Loop("dispatcher", loopSilence)
	// A saver that has nothing to save sends one heartbeat per interval.
	saver := h.Loop("saver", loopSilence+c.Publish.CheckpointInterval)
	availability := publish.NewAvailability(publish.AvailabilityOptions{
		FatalAfter: c.Refusals.FatalAfter,
		Explain:    func(err error) error { return publish.Explain(err, c.ServiceBus) },
		Registerer: o.Registerer,
		Logger:     o.Logger,
	})
	h.Ready("topic", func(context.Context) error { return availability.Err() })
	access := func(check string) *mongox.Access {
		a := &mongox.Access{After: c.Refusals.FatalAfter, Service: "publisher", Logger: o.Logger}
		h.Ready(check, a.Check)
		return a
	}
	metrics := newMetrics(o.Registerer)
	r := &Runner{
		options: o,
		access:  access("mongodb-access"),
		standby: access("mongodb-state"),
		storing: access("mongodb-quarantine"),
		reader:  reader,
		start:   start,
		watching: watch.Options{
			PrefetchBytes: c.Stream.PrefetchBytes,
			Silence:       c.Stream.Silence,
			Beat:          stream.Beat,
			Metrics:       watch.NewMetrics(o.Registerer),
		},
		scanning: ScanOptions{PrefetchBytes: c.Stream.PrefetchBytes, Beat: stream.Beat, Read: metrics.scanned},
		publishing: publish.Options{
			Connect:    o.Connect,
			Encoder:    c.Publish.Encoder(),
			ClaimCheck: c.Publish.ClaimCheck,
			Batching:   publish.Batching(c.Publish.Batching),
			Beat:       dispatcher.Beat,
			Limits: publish.Limits{
				Connections:       c.Publish.Connections,
				MaxInflightEvents: c.Publish.MaxInflightEvents,
				MaxInflightBytes:  c.Publish.MaxInflightBytes,
				MaxAttempts:       c.Refusals.MaxAttempts,
			},
			Availability: availability,
			Metrics:      publish.NewMetrics(o.Registerer),
			Tracer:       o.Tracer,
		},
		saving: checkpoint.SaverConfig{
			Interval: c.Publish.CheckpointInterval,
			Access:   access("mongodb-checkpoint"),
			Beat:     saver.Beat,
		},
		idle: stream.Idle,
		ended: func() {
			dispatcher.Idle()
			saver.Idle()
			availability.TermEnded()
		},
		metrics: metrics,
	}
	// The claim of the checkpoint, in the same database, was written before: a refusal is
	// retried.
	r.storing.Served()
	r.saving.Access.Served()
	r.watch(h, c.ServiceBus.Host())
	return r, nil
}

// TopicReached says that a connection to the topic has been opened before the first term.
func (r *Runner) TopicReached() { r.publishing.Availability.Connected() }

// Run runs terms of the election until ctx ends, or until an error ends the process. It
// returns that error.
func (r *Runner) Run(ctx context.Context, elector *leader.Elector) error {
	running, end := context.WithCancelCause(ctx)
	var guard sync.WaitGroup
	defer guard.Wait()
	defer end(nil)
	guard.Go(func() {
		if err := r.guard(running); err != nil {
			end(err)
		}
	})
	err := elector.Run(running, func(ctx context.Context, term *leader.Term) error {
		err := r.work(ctx, term)
		access := r.access
		switch {
		case errors.Is(err, quarantine.ErrRefused):
			access = r.storing
		case errors.Is(err, checkpoint.ErrRefused):
			access = r.saving.Access
		}
		if Fatal(err) && access.Final(err) {
			end(err)
		}
		return err
	})
	switch cause := context.Cause(running); {
	case err != nil:
		return err
	case ctx.Err() == nil || Fatal(cause):
		return cause
	}
	return nil
}
