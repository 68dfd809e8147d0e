package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

const (
	appName = "penstock-publisher"
	// leaseConnections bounds the connections of the election in MongoDB. It has one request
	// at a time, and the next one must not wait for a request that hangs.
	leaseConnections = 4
)

// Publisher is a publisher process. Make it with [New].
type Publisher struct {
	config   config.Config
	logger   zerolog.Logger
	registry *prometheus.Registry
	listener net.Listener
	// terms collects the terms that the status page shows.
	terms termLog
	// state is the database of the state, once it is open.
	state atomic.Pointer[mongo.Database]
	// omitted reports the records of the quarantine that the status page leaves out.
	omitted mongox.Omissions
	// started says that the checks at the start have finished.
	started atomic.Bool
	// tracer is set by Run; nil if tracing is off.
	tracer *tracing.Tracer
}

// Options configure a publisher. [Parse] makes them for a command.
type Options struct {
	// Config must be valid.
	Config config.Config
	// Logger is the logger of the process.
	Logger zerolog.Logger
	// Registry collects the metrics that the process serves; nil means a new one.
	Registry *prometheus.Registry
	// Listener is used by the admin server; nil means that Run listens on Config's admin
	// address. Run closes the listener.
	Listener net.Listener
}

// New makes a publisher. Only Run opens connections.
func New(o Options) *Publisher {
	if o.Registry == nil {
		o.Registry = obs.NewRegistry()
	}
	return &Publisher{config: o.Config, logger: o.Logger, registry: o.Registry, listener: o.Listener}
}

// Run takes part in the election, and publishes while it leads. When ctx ends, Run drains,
// saves the checkpoint, releases the lease and returns nil. An error tells the operator
// what to do. Call Run once.
func (p *Publisher) Run(ctx context.Context) error {
	ctx = mongox.Requests(ctx)
	h := health.New()
	// The server must not answer before it knows that the start has not finished.
	h.Ready("startup", func(context.Context) error {
		if !p.started.Load() {
			return errors.New("the checks at the start have not finished")
		}
		return nil
	})
	page, record := p.statusPage(h)
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
	p.registry.MustRegister(obs.BuildInfo("penstock_publisher_build_info", cli.Version()))
	p.logger.Info().Stringer("admin", admin.Addr()).Str("election", p.config.Election.Kind).
		Str("stream", p.config.Stream.Name).Msg("publisher starting")

	// The status page also shows how the process stops, so its figures are recorded until
	// then.
	stopRecording := poll.Beside(context.WithoutCancel(ctx), record)
	defer stopRecording()
	stopFollowing := poll.Beside(running, func(ctx context.Context) { h.Follow(ctx, p.logger, p.newConditions()) })
	if err = p.trace(ctx); err == nil {
		err = p.run(running, h)
	}
	if stuck(err) {
		return err
	}
	stopFollowing()
	if err := p.tracer.Close(ctx); err != nil {
		p.logger.Debug().Err(err).Msg("tracing not stopped cleanly")
	}
	if err = errors.Join(err, admin.Stop()); err == nil {
		p.logger.Info().Msg("publisher stopped")
	}
	return err
}

// trace opens the tracer of the process.
func (p *Publisher) trace(ctx context.Context) (err error) {
	service := tracing.Service{Name: appName, Version: cli.Version(), Instance: p.config.Election.Host()}
	if p.tracer, err = tracing.Open(ctx, p.config.Tracing, service, p.logger); err != nil {
		return fmt.Errorf("open tracing: %w", err)
	}
	return nil
}

// stuck reports whether a goroutine does not end. The process then exits without waiting for
// the others.
func stuck(err error) bool {
	return errors.Is(err, leader.ErrWorkerStuck) || errors.Is(err, leader.ErrElectorStuck)
}

// run opens the stores, checks the prerequisites, and takes part in the election.
func (p *Publisher) run(ctx context.Context, h *health.Health) (err error) {
	stores, err := p.open()
	if err != nil {
		return err
	}
	cleanups := []func(){func() { stores.Close(ctx) }, h.End}
	defer func() {
		if stuck(err) {
			return // a goroutine may still use what the cleanups close
		}
		for _, clean := range slices.Backward(cleanups) {
			clean()
		}
	}()
	p.state.Store(stores.state)
	reports := health.NewReports(stores.state, "publisher", p.config.Stream.Name)
	cleanups = append(cleanups, poll.Beside(ctx, func(ctx context.Context) { reports.Run(ctx, p.config.Election.Host(), h, p.logger) }))
	h.Ready("mongodb", stores.ping)

	// newElector makes no request, so a missing setting is reported before any network error.
	elector, err := p.newElector(stores.leases, h)
	if err != nil {
		return err
	}
	w, err := p.prepare(ctx, stores, h)
	if err != nil {
		return term.UnlessEnded(ctx, err)
	}
	cleanups = append(cleanups,
		poll.Beside(ctx, w.inventory.run),
		poll.Beside(ctx, func(ctx context.Context) { w.namespace.Follow(ctx, p.tryTopic, p.logger) }),
	)
	h.Ready("lease", elector.CheckLock)
	p.started.Store(true)
	return publish.Explain(w.terms.Run(ctx, elector), p.config.ServiceBus)
}

// parts are what runs the terms of the process, and what runs beside them.
type parts struct {
	terms     *term.Runner
	inventory *inventory
	// namespace is that of the topic.
	namespace *sbus.Namespace
}

// prepare checks the prerequisites, and makes what runs the terms and what runs beside them.
func (p *Publisher) prepare(ctx context.Context, s *stores, h *health.Health) (*parts, error) {
	c := p.config
	for _, client := range s.Opened {
		if err := awaitMongoDB(ctx, client, p.logger); err != nil {
			return nil, err
		}
	}
	// Check the field names before the index: with a wrong name, the remedy for a missing
	// index would name the wrong field.
	if err := checkReadable(ctx, s.sample(c), p.logger); err != nil {
		return nil, fmt.Errorf("event store %s: %w", c.MongoDB.Events(), err)
	}
	history := eventstore.NewReader(s.events, c.EventFields(), p.logger)
	if err := checkEvents(ctx, history, c.MongoDB.Events(), p.logger); err != nil {
		return nil, err
	}
	namespace, err := sbus.Open(c.ServiceBus)
	if err != nil {
		return nil, err
	}
	try := func(ctx context.Context) error { return p.tryTopic(ctx, namespace) }
	reached, err := checkTopic(ctx, try, c.ServiceBus, p.logger)
	if err != nil {
		return nil, err
	}
	made := &parts{namespace: namespace}
	made.terms, err = term.New(term.Options{
		Config: c, Health: h, Registerer: p.registry, Logger: p.logger,
		Tracer:  p.tracer.Publisher(c.ServiceBus.Host(), c.ServiceBus.Topic),
		Events:  watch.NewCollection(s.events),
		History: history,
		Collection: func(ctx context.Context) (mongox.CollectionID, error) {
			return mongox.IdentifyCollection(ctx, s.events)
		},
		Connect: publish.ServiceBus(namespace, c.ServiceBus.Topic),
		Checkpoints: checkpoint.NewStore(checkpoint.Checkpoints(s.state), c.Stream.Name, checkpoint.Options{
			Logger: p.logger, Registerer: p.registry,
		}),
		Quarantine: quarantine.NewStore(s.state.Collection(quarantine.CollectionName), c.Stream.Name, quarantine.Options{
			Logger: p.logger, Registerer: p.registry,
		}),
	})
	if err != nil {
		return nil, err
	}
	if reached {
		made.terms.TopicReached()
	}
	made.inventory = p.newInventory(s)
	watchInventory(h, made.inventory)
	return made, made.terms.AwaitPipeline(ctx, s.events.Database().Client())
}

// stores are the MongoDB databases in use. One client serves the event store and the state
// if they have the same URI.
type stores struct {
	events *mongo.Collection
	state  *mongo.Database
	// leases is the database of the state over a client of its own if the election uses it,
	// so that no other request can take the connections of a renewal.
	leases *mongo.Database
	mongox.Clients
}

func (p *Publisher) open() (*stores, error) {
	at := p.config.MongoDB
	s := &stores{Clients: mongox.Clients{Options: mongox.Options{AppName: appName, Dialer: at.Dialer, Logger: p.logger}}}
	events, err := s.For("event store", at.Events())
	if err != nil {
		return nil, err
	}
	client, err := s.For("state", at.State())
	if err != nil {
		return nil, err
	}
	s.events = events.Database(at.Events().Database).Collection(at.Events().Collection)
	s.state, s.leases = client.Database(at.State().Database), client.Database(at.State().Database)
	if p.config.Election.Kind == config.ElectionMongoDB {
		// The client of the state has logged what the options of its URI mean, and shares
		// its credentials.
		o := s.Options
		o.Logger, o.MaxPoolSize = zerolog.Nop(), leaseConnections
		if client, err = s.Open("state", at.State(), o); err != nil {
			return nil, err
		}
		s.leases = client.Database(at.State().Database)
	}
	return s, nil
}

// sample reads the newest events with the configured field names.
func (s *stores) sample(c config.Config) term.Sample {
	return term.Sample{Events: s.events, Fields: c.EventFields(), Known: quarantine.NewRecords(s.state, c.Stream.Name).Known}
}

// ping is the readiness check of the event store and the state. The elector reports whether
// the leases can be reached.
func (s *stores) ping(ctx context.Context) error {
	for _, client := range s.Opened {
		if err := client.Ping(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
