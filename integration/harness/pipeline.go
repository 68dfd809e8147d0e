package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// The databases of a pipeline with its own event store, and the events collection of any
// pipeline.
const (
	EventsDatabase     = "shop"
	EventsCollection   = "events"
	StateDatabase      = "penstock"
	ReadModelsDatabase = "readmodels"
)

// PipelineOptions configure a pipeline.
type PipelineOptions struct {
	Programs Programs
	// Dir is the directory of the projections file and of the services' logs.
	Dir string
	// Projections is the text of the projector's projections file.
	Projections []byte
	// PublisherEnv and ProjectorEnv are further variables. They have precedence over those
	// that the pipeline sets.
	PublisherEnv, ProjectorEnv []string
	// ProcessEnv are variables of single processes, by process name. They have precedence
	// over all others.
	ProcessEnv map[string][]string
}

// Of a broker that bounds its connections, the test itself needs one to read the topic, and
// each of two publishers one, because a publisher pipelines its sends. Three projectors, as
// many as run during a rolling update of two, share the others: a projector accepts sessions
// on a connection one after the other.
const (
	boundedPublishers = 2
	boundedProjectors = 3
	ownConnections    = 1 + boundedPublishers
)

// shareOf returns how many of a broker's connections a process of a service may have.
func shareOf(service Service, bound int) int {
	if service == Publisher {
		return 1
	}
	return (bound - ownConnections) / boundedProjectors
}

// Pipeline runs publishers and projectors over a backend, as processes. It is safe for
// concurrent use: one goroutine may watch the processes that another one starts.
type Pipeline struct {
	backend     Backend
	opts        PipelineOptions
	projections string

	mu sync.Mutex
	// processes are all started processes, by name.
	processes map[string]*Process
	env       []string
}

// NewPipeline prepares a pipeline and starts nothing.
func NewPipeline(backend Backend, opts PipelineOptions) (*Pipeline, error) {
	if bound := backend.MaxConnections(); bound > 0 && shareOf(Projector, bound) < 1 {
		return nil, fmt.Errorf("share %d connections to the broker: a test needs %d", bound, ownConnections+boundedProjectors)
	}
	p := &Pipeline{
		backend: backend, opts: opts, projections: filepath.Join(opts.Dir, "projections.yaml"),
		processes: make(map[string]*Process),
	}
	if err := p.SetProjections(opts.Projections); err != nil {
		return nil, err
	}
	return p, nil
}

// SetProjections replaces the projections file. A projector reads the file when it starts.
func (p *Pipeline) SetProjections(projections []byte) error {
	if err := os.WriteFile(p.projections, projections, 0o600); err != nil {
		return fmt.Errorf("write the projections file: %w", err)
	}
	return nil
}

// SetEnv sets variables of the processes that start from now on. They have precedence over
// those of [PipelineOptions] except ProcessEnv.
func (p *Pipeline) SetEnv(env ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.env = env
}

// common are the variables of both services.
func (p *Pipeline) common() []string {
	bus, databases := p.backend.Bus(), p.backend.Databases()
	env := []string{
		"MONGODB_URI=" + p.backend.MongoURI(),
		"AZURE_SERVICEBUS_CONNECTION_STRING=" + bus.ConnectionString,
		"AZURE_SERVICEBUS_TOPIC_NAME=" + bus.Topic,
		"PENSTOCK_EVENTS_DATABASE=" + databases.Events,
		"PENSTOCK_EVENTS_COLLECTION=" + EventsCollection,
		"PENSTOCK_STATE_DATABASE=" + databases.State,
	}
	// The services must trust the same certificates as the tests.
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// StartPublisher starts or restarts the publisher of that name.
func (p *Pipeline) StartPublisher(name string) (*Process, error) {
	env := append([]string{"PENSTOCK_IDENTITY=" + name}, p.publisherEnv()...)
	return p.start(name, Publisher, env)
}

// publisherEnv returns the variables of the publishers.
func (p *Pipeline) publisherEnv() []string {
	env := append(p.common(),
		"PENSTOCK_ELECTION=mongodb",
		// Shorter than the default, so that another publisher succeeds a killed leader
		// within seconds.
		"PENSTOCK_LEASE_DURATION=6s", "PENSTOCK_LEASE_RENEW_DEADLINE=4s", "PENSTOCK_LEASE_RETRY_PERIOD=1s",
	)
	return append(env, p.opts.PublisherEnv...)
}

// StartProjector starts or restarts the projector of that name.
func (p *Pipeline) StartProjector(name string) (*Process, error) {
	return p.start(name, Projector, p.projectorEnv())
}

// projectorEnv returns the variables of the projectors.
func (p *Pipeline) projectorEnv() []string {
	env := append(p.common(),
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME="+p.backend.Bus().Subscription,
		"PENSTOCK_READMODELS_DATABASE="+p.backend.Databases().ReadModels,
		"PENSTOCK_PROJECTIONS="+p.projections,
	)
	return append(env, p.opts.ProjectorEnv...)
}

// start starts a process. If the backend bounds the connections, the process gets its share.
func (p *Pipeline) start(name string, service Service, env []string) (*Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.processes[name]; before != nil && before.Running() {
		return nil, fmt.Errorf("start %s: it runs already", name)
	}
	if bound := p.backend.MaxConnections(); bound > 0 {
		connections := shareOf(service, bound)
		// A projector needs one more connection to count sessions and dead letters, so it
		// does not count.
		env = append(env, "PENSTOCK_CONNECTIONS="+strconv.Itoa(connections), "PENSTOCK_BACKLOG_INTERVAL=0")
	}
	env = append(append(env, p.env...), p.opts.ProcessEnv[name]...)
	process, err := p.opts.Programs.Start(service, name, env, p.opts.Dir)
	if err != nil {
		return nil, err
	}
	p.processes[name] = process
	return process, nil
}

// Running returns the processes that have not ended, sorted by name.
func (p *Pipeline) Running() []*Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	var running []*Process
	for _, name := range slices.Sorted(maps.Keys(p.processes)) {
		if process := p.processes[name]; process.Running() {
			running = append(running, process)
		}
	}
	return running
}

// AwaitReady waits until every running process is ready.
func (p *Pipeline) AwaitReady(ctx context.Context) error {
	for _, process := range p.Running() {
		if err := process.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// errNoLeader says that no publisher leads at the moment.
var errNoLeader = errors.New("no publisher leads")

// Leader returns the publisher that reports that it leads, or [ErrNoLeader].
func (p *Pipeline) Leader(ctx context.Context) (*Process, error) {
	for _, process := range p.Running() {
		metrics, err := process.Metrics(ctx)
		if err == nil && metrics.Sum("penstock_publisher_leader") == 1 {
			return process, nil
		}
	}
	return nil, errNoLeader
}

// AwaitLeader waits until a publisher leads.
func (p *Pipeline) AwaitLeader(ctx context.Context) (*Process, error) {
	var leader *Process
	err := proc.Await(ctx, readyPoll, "a leader", func() (bool, error) {
		var none error
		leader, none = p.Leader(ctx)
		return none == nil, nil
	})
	return leader, err
}

// stopTimeout bounds the clean stop of all services.
const stopTimeout = 30 * time.Second

// Stop stops every process cleanly and concurrently.
func (p *Pipeline) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("not within %s", stopTimeout))
	defer cancel()
	running := p.Running()
	for _, process := range running {
		if err := process.Signal(stopSignal); err != nil {
			return err
		}
	}
	var errs []error
	for _, process := range running {
		// Wait without another signal: a second signal aborts the clean stop.
		errs = append(errs, process.AwaitExit(ctx))
	}
	return errors.Join(errs...)
}

// Kill kills every process.
func (p *Pipeline) Kill() {
	for _, process := range p.Running() {
		process.Kill()
	}
}
