package simulation

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/virtual"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// Names of the servers, and of what is on them.
const (
	mongodb        = virtual.MongoDB
	stores         = virtual.Stores
	servicebus     = virtual.ServiceBus
	kubernetes     = virtual.Kubernetes
	subscription   = "projector"
	eventsDatabase = "shop"
	modelsDatabase = "readmodels"
	stateDatabase  = "penstock"
)

// mostProjectors is how many projectors run at most.
const mostProjectors = 8

// How publishers elect.
const (
	electionMongoDB    = "mongodb"
	electionKubernetes = "kubernetes"
)

// World is a pipeline with its processes, its operators and the servers. Two pipelines share
// the servers and all databases; their aggregates have the same ids.
type World struct {
	*servers
	plan *Plan
	// prefix begins the names of what two pipelines must not share: the event store's
	// collection, the topic, the stream, the projections. It is empty for the first one.
	prefix  string
	history *History

	publishers, projectors []*process
	// spares are projectors that run only for a time.
	spares []*process
	// ending are the instances that have not ended yet. closing says that none starts again.
	ending  sync.WaitGroup
	closing atomic.Bool

	mu sync.Mutex
	// definition is the version of the projections that a projector starts with. unbuilt says
	// that it was another one before, or that an operator has changed what is built: then the
	// last definition may never become live by itself.
	definition int
	unbuilt    bool
	// striking counts the faults that last at present, struck those of each kind until now, and
	// met has a hash of each state in which one began.
	striking int
	struck   map[string]int
	met      map[uint64]bool
	// commands counts the commands that operators have run, and misused are those that do not
	// exist.
	commands int
	misused  []string
	// skips are the spans of the event store that operators have skipped.
	skips []skip
	// lost are the ids of the messages that the broker has lost.
	lost map[string]bool
	// refused are the ids of the messages that the topic has refused explicitly.
	refused map[string]bool
	// corrected are the events of each aggregate that a person has corrected.
	corrected map[string][]int64
	// erasures are the aggregates that persons want to have erased.
	erasures map[string]erased
	// intruded are the read models of the ledger into which an application has written, and trampled
	// describes which of its documents a promotion has deleted.
	intruded, trampled []string
	// removed is the read model of the ledger that somebody has removed by hand; empty if none.
	removed string
	// unmet describes what did not happen as it must when a fault strikes alone.
	unmet []string
	// archived are the aggregates whose events were deleted, each with the snapshot that is kept.
	archived map[string]int64
	// changing is held by the fault that changes the definition.
	changing sync.Mutex
	// restored says that read models are of an earlier time than their events or their catalog,
	// because somebody has restored one of them: readers see that until it is mended.
	restored atomic.Bool
	// setBack counts how often the state database was restored. halted says that it is being
	// restored: no process may start. operating is held by the fault that restores the
	// state database, and shared by the commands of operators.
	setBack atomic.Int64
	halted  atomic.Bool
	// leapt is when MongoDB's clock was last set ahead so far that registrations expired; zero if never.
	leapt     atomic.Value
	operating sync.RWMutex
	// replaced says that the collection of the event store was replaced: a checkpoint of before
	// is of no use.
	replaced atomic.Bool
	// writing is held by the fault that replaces the event store, and shared by those who write
	// into it.
	writing sync.RWMutex
}

// prefixes are those of the pipelines.
var prefixes = []string{"", "second-"}

// newWorld prepares one pipeline of the servers.
func newWorld(ctx context.Context, s *servers, p *Plan, history *History, prefix string) (*World, error) {
	w := &World{servers: s, plan: p, prefix: prefix, history: history, definition: 1, struck: make(map[string]int), met: make(map[uint64]bool), lost: make(map[string]bool), refused: make(map[string]bool), corrected: make(map[string][]int64), erasures: make(map[string]erased), archived: make(map[string]int64)}
	if _, err := w.events().Indexes().CreateOne(ctx, workload.Index()); err != nil {
		return nil, fmt.Errorf("create the index of the event store: %w", err)
	}
	for version := 1; version <= 2*definitions; version++ {
		projections, views := projectionsFiles(prefix, version, p.Moves)
		if p.Archives > 0 {
			projections = withSnapshots(projections)
		}
		if err := os.WriteFile(w.projections(version), []byte(projections+views), 0o600); err != nil {
			return nil, err
		}
	}
	w.publishers = w.newProcesses(virtual.Publisher, p.Publishers)
	w.projectors = w.newProcesses(virtual.Projector, mostProjectors)
	w.projectors, w.spares = w.projectors[:p.Projectors], w.projectors[p.Projectors:]
	s.pipelines = append(s.pipelines, w)
	return w, nil
}

// named is the name of something that belongs to this pipeline alone.
func (w *World) named(name string) string { return w.prefix + name }

// owns reports whether a projection is one of this pipeline.
func (w *World) owns(projection string) bool {
	return slices.ContainsFunc([]string{"ledger", "tally", "groups", "steps"}, func(name string) bool { return projection == w.named(name) })
}

func (w *World) topic() string { return w.named("events") }

func (w *World) subscription() string { return w.topic() + "/Subscriptions/" + subscription }

// state returns the documents of a collection of the state database that a majority has.
func (w *World) state(collection string) []bson.Raw {
	return w.stores.Documents(stateDatabase, collection)
}

// checkpoint is the part of the stored checkpoint that observers compare.
type checkpoint struct {
	Token       bson.Raw       `bson:"token"`
	Epoch       int64          `bson:"epoch"`
	ClusterTime bson.Timestamp `bson:"clusterTime"`
	Scan        bson.Raw       `bson:"scan"`
}

// checkpoint returns the checkpoint; the zero value if there is none.
func (w *World) checkpoint() (found checkpoint) {
	if document := withID(w.state("checkpoints"), w.named("events")); document != nil {
		_ = bson.Unmarshal(document, &found) // a document that cannot be read has no position
	}
	return found
}

// live returns the name of the collection of a projection's live generation.
func (w *World) live(projection string) string {
	name := w.named(projection)
	return cmp.Or(text(withID(w.state("projections"), name), "live", "collection"), name)
}

// models returns the read models of a projection that a majority has, from the collection of
// the live generation. Documents of an application are left out.
func (w *World) models(projection string) []bson.Raw {
	documents := w.stores.Documents(modelsDatabase, w.live(projection))
	return slices.DeleteFunc(documents, func(d bson.Raw) bool { return text(d, "by") == intruder && d.Lookup("lastGeneration").Type == 0 })
}

// model returns a read model of a projection; nil if there is none.
func (w *World) model(projection, aggregate string) bson.Raw {
	return withID(w.models(projection), aggregate)
}

// withID returns the document with an id; nil if there is none.
func withID(documents []bson.Raw, id string) bson.Raw {
	i := slices.IndexFunc(documents, func(d bson.Raw) bool { return text(d, "_id") == id })
	if i < 0 {
		return nil
	}
	return documents[i]
}

// text and number return a field of a document; the zero value if it has none.
func text(document bson.Raw, path ...string) string {
	found, _ := document.Lookup(path...).StringValueOK()
	return found
}

func number(document bson.Raw, path ...string) int64 {
	found, _ := document.Lookup(path...).AsInt64OK()
	return found
}

func (w *World) events() *mongo.Collection {
	return w.mongo.client.Database(eventsDatabase).Collection(w.named("events"))
}

// projections is the path of a version of what the projectors declare.
func (w *World) projections(version int) string {
	return filepath.Join(w.folder, fmt.Sprintf("%sprojections-%d.yaml", w.prefix, version))
}

// environ is the environment of a command or a process.
func (w *World) environ(version int) []string {
	p := w.plan
	env := []string{
		"MONGODB_URI=" + w.stores.URI(),
		"AZURE_SERVICEBUS_CONNECTION_STRING=" + w.bus.ConnectionString(),
		"AZURE_SERVICEBUS_TOPIC_NAME=" + w.topic(),
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME=" + subscription,
		"PENSTOCK_EVENTS_DATABASE=" + eventsDatabase,
		"PENSTOCK_EVENTS_COLLECTION=" + w.named("events"),
		"PENSTOCK_STREAM=" + w.named("events"),
		"PENSTOCK_STATE_DATABASE=" + stateDatabase,
		"PENSTOCK_READMODELS_DATABASE=" + modelsDatabase,
		"PENSTOCK_ELECTION=" + p.Election,
		"PENSTOCK_LEASE_NAME=" + w.named("lease"),
		"KUBECONFIG=" + w.kubeconfig(),
		"PENSTOCK_PROJECTIONS=" + w.projections(version),
		"PENSTOCK_QUERY_ADDRESS=:8081",
		"PENSTOCK_RECEIVER=" + p.Receiver,
		"PENSTOCK_RECONCILE=off",
		"PENSTOCK_WHO=operator",
		"PENSTOCK_SESSION_MODE=aggregate",
		fmt.Sprint("PENSTOCK_FIRST_EVENT_ID=", p.first()),
	}
	if p.Split {
		env = append(env, "PENSTOCK_EVENTS_MONGODB_URI="+w.mongo.URI())
	}
	if p.Now {
		env = append(env, "PENSTOCK_START=now")
	}
	if p.Reconcile {
		env = append(env, "PENSTOCK_RECONCILE=1m")
	}
	if p.has(slowScan) {
		env = append(env, "PENSTOCK_MAX_INFLIGHT_EVENTS=16")
	}
	if p.Slots > 0 {
		env = append(env, fmt.Sprintf("PENSTOCK_SESSIONS=%d", p.Slots), "PENSTOCK_CONNECTIONS=1")
	}
	if p.Buckets > 0 {
		env = append(env, "PENSTOCK_SESSION_MODE=bucket", fmt.Sprintf("PENSTOCK_SESSION_BUCKETS=%d", p.Buckets))
	}
	return env
}

// environ is the environment of the process.
func (p *process) environ(version int) []string {
	env := p.world.environ(version)
	if p.world.plan.Named {
		env = append(env, fmt.Sprintf("PENSTOCK_IDENTITY=%s_uid", p.world.named(fmt.Sprintf("%s-%d", p.kind, p.number))))
	}
	return env
}

// process is one place in which a publisher or a projector runs, like a pod of a StatefulSet:
// its instances follow each other.
type process struct {
	world  *World
	kind   virtual.Kind
	number int

	mu        sync.Mutex
	instances int
	running   *instance
	// stopping is closed when the instance that was stopped last has ended; nil if there is none.
	stopping <-chan struct{}
	// off says that the process is not to run.
	off bool
}

// instance is one run of a process.
type instance struct {
	*virtual.Process
	log *logWriter
}

// newProcesses makes processes.
func (w *World) newProcesses(kind virtual.Kind, n int) []*process {
	processes := make([]*process, n)
	for i := range processes {
		processes[i] = &process{world: w, kind: kind, number: i}
	}
	return processes
}

// runs returns the instance that runs; nil if none does.
func (p *process) runs() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// host returns the host of the process; one without links if the process does not run.
func (p *process) host() *virtual.Host {
	if i := p.runs(); i != nil {
		return i.Host()
	}
	return p.world.network.NewHost("nowhere")
}

// name is that of the instance that runs; empty if none does.
func (p *process) name() string {
	if i := p.runs(); i != nil {
		return i.Name
	}
	return ""
}

// queries is the address at which a projector that runs answers GET /applied; empty if it
// does not run.
func (p *process) queries() string {
	if i := p.runs(); i != nil {
		return i.Queries()
	}
	return ""
}

// start runs the process if it does not run, once the instance that was stopped has ended. If it
// ends by itself, it starts again after a pause, as kubelet restarts a container.
func (w *World) start(p *process) {
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	if stopping != nil {
		<-stopping
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil || p.off || w.halted.Load() {
		return
	}
	p.instances++
	name := w.named(fmt.Sprintf("%s-%d-%d", p.kind, p.number, p.instances))
	w.mu.Lock()
	version := w.definition
	w.mu.Unlock()
	log := w.history.logOf(name)
	w.history.add(name, "starts with definition %d", version)
	i := &instance{virtual.Start(w.network, virtual.Spec{Kind: p.kind, Name: name, Env: p.environ(version), Stdout: log, Stderr: log}), log}
	p.running = i
	w.ending.Go(func() {
		status := i.Status()
		log.end()
		w.history.ended(name, status)
		p.mu.Lock()
		ended := p.running == i
		if ended {
			p.running = nil
		}
		p.mu.Unlock()
		if ended {
			<-time.After(5 * time.Second)
			if !w.closing.Load() {
				w.start(p)
			}
		}
	})
}

// take ends the run of a process and returns its instance; nil if it does not run. stops says that
// the instance still takes its time to end.
func (p *process) take(stops bool) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.running
	p.running = nil
	if i != nil && stops {
		p.stopping = i.Exited()
	}
	return i
}

// stop ends the process as SIGTERM does, and waits for it, also if another fault has stopped it. It
// reports whether it ran.
func (w *World) stop(p *process) bool {
	i := p.take(true)
	if i != nil {
		i.Terminate()
	}
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	if stopping != nil {
		<-stopping
	}
	return i != nil
}

// turn turns processes on or off.
func (w *World) turn(on bool, processes []*process) {
	for _, p := range processes {
		p.mu.Lock()
		p.off = !on
		p.mu.Unlock()
		if on {
			w.start(p)
		} else {
			w.stop(p)
		}
	}
}

// crash ends the process as a power failure does. tail says whether the requests on their
// way are still executed.
func (w *World) crash(p *process, tail bool) {
	if i := p.take(false); i != nil {
		w.history.add(i.Name, "crashes")
		i.log.end()
		i.Crash(tail)
	}
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

// leader returns the publisher that leads; nil if none does.
func (w *World) leader() *process {
	name := w.history.leader()
	i := slices.IndexFunc(w.publishers, func(p *process) bool { return name != "" && p.name() == name })
	if i < 0 {
		return nil
	}
	return w.publishers[i]
}

// rollout restarts the projectors one after the other with another version of the
// projections.
func (w *World) rollout(ctx context.Context, version int, over time.Duration) {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	w.unbuilt = w.unbuilt || version != w.definition
	w.definition = version
	w.mu.Unlock()
	for _, p := range w.projectors {
		w.stop(p)
		w.start(p)
		wait(ctx, over/time.Duration(len(w.projectors)))
	}
}

// leavesUnbuilt notes that an operator cancels a build, or asks for one that parked aggregates
// may prevent.
func (w *World) leavesUnbuilt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unbuilt = true
}

// losing notes the ids that selects selects: their messages reach nobody.
func (w *World) losing(selects func(string) bool) func(string) bool { return w.noting(w.lost, selects) }

// refusing notes the ids that selects selects: the topic refuses their messages.
func (w *World) refusing(selects func(string) bool) func(string) bool {
	return w.noting(w.refused, selects)
}

func (w *World) noting(in map[string]bool, selects func(string) bool) func(string) bool {
	return func(id string) bool {
		if !selects(id) {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		in[id] = true
		return true
	}
}

// command runs a command of an operator. If it fails, the error has what it has printed.
func (w *World) command(ctx context.Context, program virtual.Kind, args ...string) error {
	w.operating.RLock()
	defer w.operating.RUnlock()
	w.mu.Lock()
	version := w.definition
	w.commands++
	name := w.named(fmt.Sprintf("operator-%d", w.commands))
	w.mu.Unlock()
	var out lockedBuffer
	p := virtual.Start(w.network, virtual.Spec{Kind: program, Name: name, Args: args, Env: w.environ(version), Stdout: &out, Stderr: &out})
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Crash(false)
		<-p.Exited()
	}
	var err error
	if p.Status() == usage {
		w.mu.Lock()
		w.misused = append(w.misused, strings.Join(args, " ")+"\n"+out.String())
		w.mu.Unlock()
	}
	if status := p.Status(); status != 0 {
		err = fmt.Errorf("%s %s: status %d\n%s", program, strings.Join(args, " "), status, out.String())
	}
	w.history.add("operator", "%s %s: %v", program, strings.Join(args, " "), err)
	return err
}

// usage is the exit status of a command line that is not understood.
const usage = 2

// skip is a part of the event store that an operator has told the publishers to skip.
type skip struct {
	// from is the checkpoint before the command. until is when the command ended; zero if every
	// earlier event was published.
	from  bson.Timestamp
	until time.Time
	// start is where the stream begins since. A scan leaves out events that are a minute older
	// by the clock of their writer.
	start time.Time
}

// skipping notes what a move of the checkpoint skips. drained says that everything that is stored is
// published: then only a later scan skips what is older than the new start.
func (w *World) skipping(drained bool, move func()) {
	before := w.checkpoint()
	move()
	after := w.checkpoint()
	for _, found := range []*checkpoint{&before, &after} {
		if found.Scan != nil {
			found.ClusterTime = bson.Timestamp{}
		}
	}
	s := skip{before.ClusterTime, time.Now(), time.Unix(int64(after.ClusterTime.T), 0)}
	if drained {
		s.until = time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skips = append(w.skips, s)
}

// begins notes where the stream begins if the plan says Now: what is written since the first publisher
// follows the change stream must be published.
func (w *World) begins(at bson.Timestamp) {
	until := cmp.Or(w.history.following(), time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skips = append(w.skips, skip{until: until, start: time.Unix(int64(at.T), 0)})
}

// skipped reports whether an operator has skipped an event.
func (w *World) skipped(c *commit) bool {
	return slices.ContainsFunc(w.skips, func(s skip) bool {
		return !c.at.Before(s.from) && (c.began.Before(s.until) || c.began.Before(s.start.Add(-time.Minute)))
	})
}

// lockedBuffer takes what a program prints to stdout and stderr.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
