package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/backlog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// stopTimeout bounds the end of the goroutines that serve draining, after draining has
// ended.
const stopTimeout = 2 * time.Second

// Projector is a projector process. Make it with [New].
type Projector struct {
	config      config.Config
	projections []*Projection
	compiler    *operate.Compiler
	logger      zerolog.Logger
	registry    *prometheus.Registry
	listener    net.Listener
	queries     net.Listener
	startup     startup
	// host is the name of this host. Run sets it.
	host string
	// tracer is set by Run; nil if tracing is off.
	tracer *tracing.Tracer
}

// Options configure a projector. [Parse] makes them for a command.
type Options struct {
	// Config must be valid.
	Config config.Config
	// Projections are all projections to keep up to date. Their names and collections must
	// be unique.
	Projections []*Projection
	// Logger is the logger of the process.
	Logger zerolog.Logger
	// Registry collects the metrics that the process serves; nil means a new one.
	Registry *prometheus.Registry
	// Listener is used by the admin server; nil means that Run listens on Config's admin
	// address. Run closes the listener.
	Listener net.Listener
	// QueryListener is used for GET /applied; nil means that Run listens on Config's query
	// address, if there is one. Run closes the listener.
	QueryListener net.Listener
}

// New makes a projector. Only Run opens connections.
func New(o Options) *Projector {
	if o.Registry == nil {
		o.Registry = obs.NewRegistry()
	}
	return &Projector{config: o.Config, projections: o.Projections, compiler: operate.NewCompiler(o.Projections), logger: o.Logger, registry: o.Registry, listener: o.Listener, queries: o.QueryListener}
}

// Run projects until ctx ends. Then it finishes the received events, releases its sessions
// and returns nil. An error tells the operator what to do, or that finishing took too long.
// Call Run once.
func (p *Projector) Run(ctx context.Context) error {
	ctx = mongox.Requests(ctx)
	var err error
	if p.host, err = os.Hostname(); err != nil {
		return fmt.Errorf("read the host name: %w", err)
	}
	h := health.New()
	// The server must not answer before it knows that the start has not finished.
	h.Ready("startup", p.startup.check)
	page, tables := p.statusPage(h)
	admin, running, err := health.Start(ctx, h, health.Options{
		Address:  p.config.Process.AdminAddress,
		Listener: p.listener,
		Metrics:  obs.MetricsHandler(p.registry),
		Status:   page,
		PProf:    p.config.Process.PProf,
		Hosts:    strings.Split(p.config.Process.AdminHosts, ","),
	})
	if err != nil {
		return fmt.Errorf("PENSTOCK_ADMIN_ADDRESS: %w", err)
	}
	p.registry.MustRegister(obs.BuildInfo("penstock_projector_build_info", cli.Version()))
	p.logger.Info().Stringer("admin", admin.Addr()).Int("projections", len(p.projections)).
		Str("subscription", p.config.ServiceBus.Topic+"/"+p.config.ServiceBus.Subscription).Msg("projector starting")

	// The status page also shows how the process stops, so its figures are recorded until
	// then.
	stopRecording := poll.Beside(context.WithoutCancel(ctx), tables.recorder.Run)
	defer stopRecording()
	stopFollowing := poll.Beside(running, func(ctx context.Context) { h.Follow(ctx, p.logger, p.newConditions()) })
	defer stopFollowing()
	if err = p.trace(ctx); err == nil {
		err = p.run(running, h, tables)
	}
	if err := p.tracer.Close(ctx); err != nil {
		p.logger.Debug().Err(err).Msg("tracing not stopped cleanly")
	}
	if err = errors.Join(err, admin.Stop()); err == nil {
		p.logger.Info().Msg("projector stopped")
	}
	return err
}

// trace opens the tracer of the process.
func (p *Projector) trace(ctx context.Context) (err error) {
	service := tracing.Service{Name: "penstock-projector", Version: cli.Version(), Instance: p.host}
	if p.tracer, err = tracing.Open(ctx, p.config.Tracing, service, p.logger); err != nil {
		return fmt.Errorf("open tracing: %w", err)
	}
	return nil
}

// run opens the stores, waits for them, and drains.
func (p *Projector) run(ctx context.Context, h *health.Health, tables *stateTables) error {
	var connected atomic.Bool
	s, err := config.OpenStores(p.config.MongoDB, nil, p.logger)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	defer h.End()
	h.Ready("mongodb", s.Ping)
	pod := podName(p.host)
	reports := health.NewReports(s.State, "projector", p.config.Pipeline().String())
	stopReporting := poll.Beside(ctx, func(ctx context.Context) { reports.Run(ctx, pod, h, p.logger) })
	defer stopReporting()
	h.Ready("servicebus", func(context.Context) error {
		if !connected.Load() {
			return errors.New("the broker has not been reached yet")
		}
		return nil
	})
	if err := p.prepare(ctx, s); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// The catalog, the jobs and the logs of other pods show this process by its pod name.
	p.logger.Info().Str("pod", pod).Msg("pod name chosen")
	return p.whileAccepted(ctx, s, h, func(ctx context.Context) error {
		return p.drain(ctx, s, h, tables, pod, &connected)
	})
}

// drain drains until ctx ends, or until an error ends it.
func (p *Projector) drain(ctx context.Context, s *config.Stores, h *health.Health, tables *stateTables, pod string, connected *atomic.Bool) error {
	// The background goroutines serve draining, so they end after it.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	draining, end := context.WithCancelCause(ctx)
	defer end(nil)
	acceptor, past, err := p.compose(background, group, s, h, pod, func() { connected.Store(true) }, end)
	if err != nil {
		return err
	}
	if err := p.startHistory(ctx, s, past); err != nil {
		stop()
		ended := group.Wait()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(ended, context.Canceled):
			return err // stop has ended the goroutines
		}
		return errors.Join(err, ended)
	}
	tables.past.Store(past)
	p.startup.done()
	group.Go(func() error { return past.follower.Run(background) })
	group.Go(func() error { return past.runner.Run(background) })
	group.Go(func() error { return past.reconciling.Run(background) })
	group.Go(func() error { return past.coordinator.Run(background) })
	context.AfterFunc(background, func() { end(errBackgroundEnded) })
	err = p.explain(acceptor.Run(draining))
	if err == nil && ctx.Err() == nil {
		err = context.Cause(draining)
	}
	stop()
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case e := <-ended:
		if errors.Is(e, context.Canceled) {
			e = nil
		}
		return errors.Join(err, e)
	case <-time.After(stopTimeout):
		// Closing the client aborts a write that hangs.
		return err
	}
}

// explain adds the remedy to an error of the acceptor.
func (p *Projector) explain(err error) error {
	sb := p.config.ServiceBus
	switch {
	case errors.Is(err, drain.ErrRefused) && sbus.Remedy(err, "") != "":
		return fmt.Errorf("subscription %s of topic %s at %s: %w; %s", sb.Subscription, sb.Topic, sb.Host(), err, sbus.Remedy(err, "the subscription or its topic"))
	case errors.Is(err, drain.ErrRefused):
		return fmt.Errorf("subscription %s of topic %s at %s: %w; check that both exist (AZURE_SERVICEBUS_TOPIC_NAME, AZURE_SERVICEBUS_SUBSCRIPTION_NAME) and are enabled, that the subscription requires sessions, and that the credentials have the right to listen",
			sb.Subscription, sb.Topic, sb.Host(), err)
	case errors.Is(err, drain.ErrDrainTimeout):
		return fmt.Errorf("stop: %w (PENSTOCK_DRAIN_TIMEOUT is %v); nothing is lost: the broker delivers the unfinished events again", err, p.config.Process.DrainTimeout)
	}
	return err
}

// errBackgroundEnded says that a goroutine that draining needs has ended. That goroutine's
// own error says why.
var errBackgroundEnded = errors.New("the reading and writing of read models has ended")

// compose makes the parts, and starts in group those that run beside draining. end ends draining.
func (p *Projector) compose(ctx context.Context, group *errgroup.Group, s *config.Stores, h *health.Health, pod string, connected func(), end context.CancelCauseFunc) (*drain.Acceptor, *upkeep, error) {
	c := p.config
	loader := readmodel.NewLoader(s.ReadModels, readmodel.LoaderOptions{MaxBytes: c.Projections.LoadBytes})
	writer := readmodel.NewWriter(s.ReadModels, readmodel.WriterOptions{Window: c.Projections.FlushInterval, Registerer: p.registry, Logger: p.logger})
	parked := park.NewStore(park.In(s.State), park.Options{Reasons: operate.Reasons(), Registerer: p.registry, Logger: p.logger})
	events := eventstore.NewReader(s.Events, c.EventFields(), p.logger)
	registry := p.newRegistry(s, pod)
	eng := engine.New(engine.Options{
		Store:      readModels{loader, writer},
		Parking:    parked,
		Repairer:   events,
		Reachable:  s.PingReadModels,
		Trusted:    registry.Trusted,
		Registerer: p.registry,
		Log:        p.logger,
	})
	handler := &handler{
		engine: eng.Session(c.Projections.KeepBytes), whole: events.Whole, log: p.logger,
		claims: semaphore.NewWeighted(claimBatches),
		tracer: p.tracer.Processor(c.ServiceBus.Host(), c.ServiceBus.Topic, c.ServiceBus.Subscription),
	}
	past := p.newHistory(s, pod, registry, parked, newTargets(eng, parked, s.ReadModels, p.compiler, p.config.Fields.FromZero()))
	resumer := history.NewResumer(history.ResumerOptions{Claims: parked, Soon: parked.Soon(), Engine: eng, Registerer: p.registry, Logger: p.logger})
	reader := event.NewReader(c.EventFields())
	namespace, err := sbus.Open(c.ServiceBus.Config)
	if err != nil {
		return nil, nil, err
	}
	try := func(ctx context.Context, n *sbus.Namespace) error {
		return backlog.Try(ctx, sbus.Subscription{Topic: c.ServiceBus.Topic, Name: c.ServiceBus.Subscription, NewClient: n.NewClient})
	}
	group.Go(func() error { namespace.Follow(ctx, try, p.logger); return nil })
	subscription := sbus.Subscription{Topic: c.ServiceBus.Topic, Name: c.ServiceBus.Subscription, NewClient: namespace.NewClient, Changed: namespace.Changed}
	acceptor := drain.New(drain.Options{
		Dial:          operate.Dial(c.ServiceBus, namespace, p.logger),
		Handler:       handler,
		Reader:        reader,
		Slots:         c.Slots(),
		Connections:   c.Connections(),
		BatchSize:     c.Projections.BatchSize,
		BufferBytes:   c.Sessions.BufferBytes,
		SessionIdle:   c.SessionIdle(),
		SessionHold:   c.Sessions.Hold,
		SessionTenure: c.Sessions.Tenure,
		Behind:        c.Backlog.BehindAfter,
		DrainTimeout:  c.Process.DrainTimeout,
		Registerer:    p.registry,
		Logger:        p.logger,
		Heartbeat: func(slot int) drain.Heartbeat {
			return h.Loop(fmt.Sprintf("slot-%d", slot), drain.MaxSilence)
		},
		Connected: connected,
		Misread:   func(ctx context.Context, invalid error) bool { return p.misread(ctx, s, invalid, end) },
	})
	var deadLetters *deadletter.Counter
	if c.Backlog.Interval > 0 {
		counter := backlog.New(backlog.Options{
			Dial:       backlog.Dial(subscription),
			Interval:   c.Backlog.Interval,
			Limit:      c.Backlog.Limit,
			Registerer: p.registry,
			Logger:     p.logger,
		})
		group.Go(func() error { return counter.Run(ctx) })
		h.Figure(operate.FigureLimit, func() (float64, bool) { return float64(c.Backlog.Limit), true })
		h.Figure(operate.FigureBacklog, func() (float64, bool) {
			n, _, fresh := counter.Last()
			return float64(n), fresh
		})
		deadLetters = p.deadLetters(subscription)
		group.Go(func() error { return deadLetters.Run(ctx) })
	}
	source := &applied{entries: past.follower.Projections, stores: s, parked: parked, events: events, fromZero: p.config.Fields.FromZero()}
	if err := p.serveApplied(ctx, group, source); err != nil {
		return nil, nil, err
	}
	workers := p.workers(s, eng, readModels{loader, writer}, parked, events, &handler.live)
	runner := func(small int64, kinds ...job.Kind) *job.Runner {
		working := map[job.Kind]job.Worker{}
		for _, kind := range kinds {
			working[kind] = workers
		}
		return job.NewRunner(job.RunnerOptions{Jobs: past.jobs, Workers: working, Holder: pod, Here: workers.Serves, Small: small, Logger: p.logger})
	}
	past.runner, past.reconciling = runner(smallJob(c.History.JobRate()), job.Build, job.Sweep, job.Verify), runner(0, job.Reconcile)
	past.coordinator = p.coordinator(s, past, parked, events)
	var scheduler *history.Scheduler
	if c.History.Reconcile > 0 {
		scheduler = p.scheduler(past)
		group.Go(func() error { return scheduler.Run(ctx) })
	}
	watchState(h, past, deadLetters, scheduler)
	p.watchBroker(h, acceptor)
	p.watchDelay(h, acceptor, writer)
	p.watchReading(h, acceptor)
	group.Go(func() error { return past.jobs.Run(ctx) })
	group.Go(func() error { return loader.Run(ctx) })
	group.Go(func() error { return writer.Run(ctx) })
	group.Go(func() error { return parked.Run(ctx) })
	group.Go(func() error { return resumer.Run(ctx) })
	return acceptor, past, nil
}
