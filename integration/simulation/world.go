package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/cli"
	projector "github.com/penstock-cdc/penstock/projector/app"
	publisher "github.com/penstock-cdc/penstock/publisher/app"
)

// Names of the servers, and of what is on them.
const (
	mongodb          = "mongodb:27017"
	servicebus       = "servicebus:5672"
	kubernetes       = "kubernetes:80"
	topic            = "events"
	subscription     = "projector"
	subscriptionPath = topic + "/Subscriptions/" + subscription
	eventsDatabase   = "shop"
	modelsDatabase   = "readmodels"
	stateDatabase    = "penstock"
)

// How publishers elect.
const (
	electionMongoDB    = "mongodb"
	electionKubernetes = "kubernetes"
)

// servers are all servers that a process has a link to.
var servers = []string{mongodb, servicebus, kubernetes}

// World is a pipeline with its servers, writers and operators. It lives in one bubble of
// testing/synctest.
type World struct {
	plan    *Plan
	folder  string
	network *Network
	mongo   *mongoemu.Server
	bus     *sbemu.Server
	kube    *apiServer
	// client reaches MongoDB over a link without faults. Writers, observers and validators
	// use it.
	client  *mongo.Client
	history *History

	publishers, projectors []*process
	// ending are the crashed processes that have not returned yet.
	ending sync.WaitGroup

	mu sync.Mutex
	// definition is the version of the projections that a projector starts with, and changed
	// says that it was another one before.
	definition int
	changed    bool
	// changing is held by the fault that changes the definition.
	changing sync.Mutex
}

// newWorld starts the servers of a plan. folder is for the files of projections.
func newWorld(ctx context.Context, p *Plan, history *History, folder string) (*World, error) {
	w := &World{plan: p, folder: folder, network: NewNetwork(p.Seed), history: history, definition: 1}
	var err error
	w.mongo, err = mongoemu.New(mongoemu.Config{
		Listener: w.network.Listen(mongodb),
		Now:      func() time.Time { return time.Now().Add(p.ClockOffset) },
	})
	if err != nil {
		return nil, err
	}
	if err := w.mongo.Start(); err != nil {
		return nil, err
	}
	w.bus, err = sbemu.New(sbemu.Config{
		Listener: w.network.Listen(servicebus),
		Topics: []sbemu.Topic{{
			Name: topic, DuplicateDetectionWindow: p.Duplicates, Partitioned: p.Partitioned, Record: 1 << 20,
			Subscriptions: []sbemu.Subscription{{Name: subscription, RequiresSession: true, LockDuration: p.Lock}},
		}},
	})
	if err != nil {
		return nil, err
	}
	if err := w.bus.Start(); err != nil {
		return nil, err
	}
	w.kube = newAPIServer(w.network.Listen(kubernetes))
	if err := os.WriteFile(w.kubeconfig(), []byte(kubeconfig), 0o600); err != nil {
		return nil, err
	}
	w.client, err = mongo.Connect(options.Client().ApplyURI(w.mongo.URI()).SetDialer(w.network.NewHost("observer").Dialer(mongodb)))
	if err != nil {
		return nil, err
	}
	index := mongo.IndexModel{Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}, Options: options.Index().SetUnique(true)}
	if _, err := w.events().Indexes().CreateOne(ctx, index); err != nil {
		return nil, fmt.Errorf("create the index of the event store: %w", err)
	}
	for version := 1; version <= definitions; version++ {
		if err := os.WriteFile(w.projections(version), []byte(projectionsFile(version)), 0o600); err != nil {
			return nil, err
		}
	}
	for i := range p.Publishers {
		w.publishers = append(w.publishers, &process{world: w, kind: "publisher", number: i})
	}
	for i := range p.Projectors {
		w.projectors = append(w.projectors, &process{world: w, kind: "projector", number: i})
	}
	return w, nil
}

func (w *World) events() *mongo.Collection {
	return w.client.Database(eventsDatabase).Collection("events")
}

// projections is the path of a version of the projections.
func (w *World) projections(version int) string {
	return filepath.Join(w.folder, fmt.Sprintf("projections-%d.yaml", version))
}

// kubeconfig is the path of the file with the API server's address.
func (w *World) kubeconfig() string { return filepath.Join(w.folder, "kubeconfig.yaml") }

// close ends the servers.
func (w *World) close(ctx context.Context) error {
	return errors.Join(w.client.Disconnect(ctx), w.bus.Close(), w.kube.close(), w.mongo.Close())
}

// environ is the environment of every process and command.
func (w *World) environ(version int) func(string) (string, bool) {
	p := w.plan
	env := map[string]string{
		"MONGODB_URI":                        w.mongo.URI(),
		"AZURE_SERVICEBUS_CONNECTION_STRING": w.bus.ConnectionString(),
		"AZURE_SERVICEBUS_TOPIC_NAME":        topic,
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME": subscription,
		"PENSTOCK_EVENTS_DATABASE":           eventsDatabase,
		"PENSTOCK_STATE_DATABASE":            stateDatabase,
		"PENSTOCK_READMODELS_DATABASE":       modelsDatabase,
		"PENSTOCK_ELECTION":                  p.Election,
		"KUBECONFIG":                         w.kubeconfig(),
		"PENSTOCK_PROJECTIONS":               w.projections(version),
		"PENSTOCK_LOG_LEVEL":                 "info",
		"PENSTOCK_RECEIVER":                  p.Receiver,
		"PENSTOCK_RECONCILE":                 "1m",
		"PENSTOCK_WHO":                       "operator",
		"PENSTOCK_SESSION_MODE":              "aggregate",
	}
	if p.Buckets > 0 {
		env["PENSTOCK_SESSION_MODE"] = "bucket"
		env["PENSTOCK_SESSION_BUCKETS"] = fmt.Sprint(p.Buckets)
	}
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

// process is one place in which a publisher or a projector runs, like a pod of a StatefulSet:
// its instances follow each other.
type process struct {
	world  *World
	kind   string
	number int

	mu        sync.Mutex
	instances int
	running   *instance
}

// instance is one run of a process.
type instance struct {
	name   string
	at     *Host
	cancel context.CancelFunc
	ended  chan struct{}
	log    *logWriter
	// listeners are where it answers requests.
	listeners []net.Listener
}

// queries is the address at which a projector answers GET /applied.
func (i *instance) queries() string { return i.name + ":8081" }

// host is where the process runs; the host of its last instance if none runs.
func (p *process) host() *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return p.world.network.NewHost("nowhere")
	}
	return p.running.at
}

// queries is the address at which a projector that runs answers GET /applied; empty if it
// does not run.
func (p *process) queries() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return ""
	}
	return p.running.queries()
}

// start runs the process if it does not run. If it ends by itself, it starts again after a
// pause, as kubelet restarts a container.
func (w *World) start(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return
	}
	p.instances++
	name := fmt.Sprintf("%s-%d.%d", p.kind, p.number, p.instances)
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	version := w.definition
	w.mu.Unlock()
	i := &instance{
		name: name, at: w.network.NewHost(name), cancel: cancel, ended: make(chan struct{}),
		log: w.history.logOf(name),
	}
	p.running = i
	run, err := w.configure(p.kind, i, version)
	w.history.add(name, "starts with definition %d", version)
	w.ending.Go(func() {
		defer close(i.ended)
		if err == nil {
			err = run(ctx)
		}
		i.log.end()
		// As the kernel closes what a process has left open.
		i.at.Crash(true)
		for _, l := range i.listeners {
			_ = l.Close()
		}
		stopped := ctx.Err() != nil
		w.history.ended(name, err)
		if stopped {
			return
		}
		p.mu.Lock()
		p.running = nil
		p.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
			w.start(p)
		}
	})
}

// configure returns the main function of an instance.
func (w *World) configure(kind string, i *instance, version int) (func(context.Context) error, error) {
	mongoDial, busDial := i.at.Dialer(mongodb), i.at.Dialer(servicebus).Dial
	var stderr bytes.Buffer
	admin, queries := w.network.Listen(i.name+":8080"), w.network.Listen(i.queries())
	i.listeners = []net.Listener{admin, queries}
	if kind == "publisher" {
		o, err := publisher.ParseOptions(nil, w.environ(version), i.log, &stderr)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, &stderr)
		}
		o.Config.MongoDB.Dialer, o.Config.ServiceBus.Dial, o.Listener = mongoDial, busDial, admin
		o.Config.Election.Dial = i.at.Dialer(kubernetes).DialContext
		return publisher.New(o).Run, nil
	}
	o, err := projector.ParseOptions(nil, w.environ(version), i.log, &stderr)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &stderr)
	}
	o.Config.MongoDB.Dialer, o.Config.ServiceBus.Dial, o.Listener = mongoDial, busDial, admin
	o.QueryListener = queries
	return projector.New(o).Run, nil
}

// take ends the run of a process and returns its instance; nil if it does not run.
func (p *process) take() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.running
	p.running = nil
	return i
}

// stop ends the process as SIGTERM does, and waits for it.
func (w *World) stop(p *process) {
	if i := p.take(); i != nil {
		i.cancel()
		<-i.ended
	}
}

// crash ends the process as a power failure does: none of its later requests reaches a
// server. tail says whether the requests on their way are still executed.
func (w *World) crash(p *process, tail bool) {
	i := p.take()
	if i == nil {
		return
	}
	w.history.add(i.name, "crashes")
	i.log.end()
	i.at.Crash(tail)
	i.cancel()
}

// restart stops or crashes a process and starts it again when the fault is over.
func (w *World) restart(ctx context.Context, p *process, f Fault, crash bool) {
	if crash {
		w.crash(p, f.Way%2 == 0)
	} else {
		w.stop(p)
	}
	wait(ctx, f.For)
	w.start(p)
}

// rollout restarts the projectors one after the other with another version of the
// projections.
func (w *World) rollout(ctx context.Context, version int, over time.Duration) {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	w.changed = w.changed || version != w.definition
	w.definition = version
	w.mu.Unlock()
	for _, p := range w.projectors {
		w.stop(p)
		w.start(p)
		wait(ctx, over/time.Duration(len(w.projectors)))
	}
}

// command runs a command of an operator, and returns its error with what it has printed.
func (w *World) command(ctx context.Context, program string, args ...string) error {
	w.mu.Lock()
	version := w.definition
	w.mu.Unlock()
	host := w.network.NewHost("operator")
	defer host.Crash(true)
	var stdout, stderr bytes.Buffer
	var parsed cli.Program
	var err error
	if program == "publisher" {
		parsed, err = publisher.Parse(args, w.environ(version), &stdout, &stderr, func(o *publisher.Options) {
			o.Config.MongoDB.Dialer, o.Config.ServiceBus.Dial = host.Dialer(mongodb), host.Dialer(servicebus).Dial
			o.Config.Election.Dial = host.Dialer(kubernetes).DialContext
		})
	} else {
		parsed, err = projector.Parse(args, w.environ(version), &stdout, &stderr, func(o *projector.Options) {
			o.Config.MongoDB.Dialer, o.Config.ServiceBus.Dial = host.Dialer(mongodb), host.Dialer(servicebus).Dial
		})
	}
	if err == nil {
		err = parsed.Run(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, &stdout, &stderr)
	}
	w.history.add("operator", "%s %s: %v", program, strings.Join(args, " "), err)
	return err
}
