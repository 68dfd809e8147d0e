package e2e_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// Two releases share one MongoDB and one namespace. If their names collide, the second
// refuses to start and says why. With other names, it does not disturb the first.
func TestTwoPipelinesSideBySide(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own, with two topics")
	t.Parallel()
	both := startWithTopics(t, "orders", "invoices")

	// The first pipeline owns all the default names.
	first := newRelease(t, both, "orders", shop.New(2000, 51))
	first.start()
	first.store(1000)
	first.await()

	colliding := newRelease(t, both, "invoices", shop.New(2000, 52))
	colliding.refused(colliding.publisher(), "PENSTOCK_ADOPT_CHECKPOINT=",
		`checkpoint \"events\" belongs to another pipeline (collection: recorded \"orders\", now \"invoices\"; topic: recorded \"orders\", now \"invoices\")`,
		"PENSTOCK_STREAM")
	colliding.refused(colliding.projector(), "projector owners release --why TEXT",
		`read model \"userReadModels\" (topic: recorded \"orders\", now \"invoices\"; event store: recorded \"shop.orders\", now \"shop.invoices\")`,
		`projection \"users\" (`, "PENSTOCK_READMODELS_DATABASE")

	// A second pipeline on the first one's subscription would receive some of its events.
	thief := newRelease(t, both, "orders", shop.New(1, 53), "PENSTOCK_READMODELS_DATABASE=other")
	thief.refused(thief.projector(), "projector owners release --why TEXT", `read models' database: recorded \"readmodels\", now \"other\"`)

	// The lease of one stream's publishers cannot be used by another stream.
	lease := newRelease(t, both, "invoices", shop.New(1, 54), "PENSTOCK_STREAM=invoices", "PENSTOCK_LEASE_NAME=shared")
	lease.refused(lease.publisher(), `lease \"shared\" is that of stream \"events\"`, "PENSTOCK_LEASE_NAME")

	second := newRelease(t, both, "invoices", shop.New(2000, 52), "PENSTOCK_STREAM=invoices",
		"PENSTOCK_STATE_DATABASE=penstock-invoices", "PENSTOCK_READMODELS_DATABASE=readmodels-invoices")
	second.modelsDatabase = "readmodels-invoices"
	second.start()
	second.store(2000)
	first.store(2000)
	first.await()
	second.await()
}

// release is one of several pipelines on the same servers.
type release struct {
	*harness.Pipeline
	t              *testing.T
	name           string
	workload       *workload.Workload
	events         *mongo.Collection
	modelsDatabase string
	stored         int
}

// releaseBackend is the shared servers with the topic of one pipeline.
type releaseBackend struct {
	*harness.Embedded
	topic string
}

// Bus implements [harness.Backend].
func (b releaseBackend) Bus() harness.Bus {
	return harness.Bus{ConnectionString: b.Broker.ConnectionString(), Topic: b.topic, Subscription: "projector"}
}

// newRelease prepares a pipeline that reads the collection of that name and publishes to
// the topic of that name. All publishers have the same lease name, unless env changes it.
func newRelease(t *testing.T, servers *harness.Embedded, name string, w *workload.Workload, env ...string) *release {
	t.Helper()
	env = append([]string{"PENSTOCK_EVENTS_COLLECTION=" + name}, env...)
	pipeline, err := harness.NewPipeline(releaseBackend{servers, name}, harness.PipelineOptions{
		Programs: suite.services, Dir: t.TempDir(), Projections: w.Projections,
		PublisherEnv: append([]string{"PENSTOCK_LEASE_NAME=shared"}, env...), ProjectorEnv: env,
	})
	if err != nil {
		t.Fatal(err)
	}
	events := mongoemutest.Connect(t, servers.Mongo).Database(harness.EventsDatabase).Collection(name)
	r := &release{Pipeline: pipeline, t: t, name: name, workload: w, events: events, modelsDatabase: harness.ReadModelsDatabase}
	t.Cleanup(func() {
		running := r.Running()
		r.Kill()
		for _, process := range running {
			if t.Failed() {
				t.Logf("%s %s:\n%s", name, process.Name, tail(process.Log))
			}
		}
	})
	return r
}

func (r *release) publisher() *harness.Process {
	r.t.Helper()
	process, err := r.StartPublisher("publisher")
	if err != nil {
		r.t.Fatal(err)
	}
	return process
}

func (r *release) projector() *harness.Process {
	r.t.Helper()
	process, err := r.StartProjector("projector")
	if err != nil {
		r.t.Fatal(err)
	}
	return process
}

// start creates the collection and starts both services.
func (r *release) start() {
	r.t.Helper()
	createIndex(r.t, r.events)
	r.publisher()
	r.projector()
	ctx, cancel := context.WithTimeout(r.t.Context(), settleTimeout())
	defer cancel()
	if err := r.AwaitReady(ctx); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.AwaitLeader(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// refused waits for the end of a process, and checks its exit status and its last log line.
func (r *release) refused(process *harness.Process, words ...string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), settleTimeout())
	defer cancel()
	select {
	case <-process.Exited():
	case <-ctx.Done():
		r.t.Fatalf("%s of %s was not refused:\n%s", process.Name, r.name, tail(process.Log))
	}
	exit, ok := errors.AsType[*exec.ExitError](process.Err())
	if !ok || exit.ExitCode() != 1 {
		r.t.Errorf("%s ended with %v", process.Name, process.Err())
	}
	log, err := os.ReadFile(process.Log)
	if err != nil {
		r.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	for _, word := range words {
		if last := lines[len(lines)-1]; !strings.Contains(last, word) {
			r.t.Errorf("%s says nothing of %s:\n%s", process.Name, word, last)
		}
	}
}

// store stores the first until events of the workload.
func (r *release) store(until int) {
	r.t.Helper()
	until = min(until, len(r.workload.Events))
	if _, err := r.events.InsertMany(r.t.Context(), r.workload.Events[r.stored:until]); err != nil {
		r.t.Fatal(err)
	}
	r.stored = until
}

// await waits until every read model equals the fold of the pipeline's event store.
func (r *release) await() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), settleTimeout())
	defer cancel()
	models := r.events.Database().Client().Database(r.modelsDatabase)
	for {
		report, err := verify.ReadModels(r.t.Context(), r.events, models, r.workload.Oracle, verify.Options{})
		if err != nil {
			r.t.Fatal(err)
		}
		if report.OK() {
			return
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			r.t.Fatalf("%s: %d of %d read models are right:\n%s", r.name, report.Right, report.Expected, strings.Join(report.Findings, "\n"))
		}
	}
}
