package e2e_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// Two releases share one MongoDB and one namespace. If their names collide, the second
// refuses to start and says why. With other names, it does not disturb the first.
func TestTwoPipelinesSideBySide(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own, with two topics")
	t.Parallel()
	var topics []sbemu.Topic
	for _, name := range []string{"orders", "invoices"} {
		topics = append(topics, sbemu.Topic{Name: name, DuplicateDetectionWindow: 10 * time.Minute, Subscriptions: []sbemu.Subscription{subscription}})
	}
	both := startWith(t, sbemu.Config{Topics: topics})

	// The first pipeline owns all the default names.
	first := newRelease(t, both, "orders", shop.New(2000, 51))
	first.start(1, 1)
	first.insert(first.workload.Events[:1000]...)
	first.awaitReadModels()

	colliding := newRelease(t, both, "invoices", shop.New(2000, 52))
	colliding.refused(colliding.startPublisher(0), "publisher checkpoint release --why TEXT",
		`checkpoint \"events\" belongs to another pipeline (collection: recorded \"orders\", now \"invoices\"; topic: recorded \"orders\", now \"invoices\")`,
		"PENSTOCK_STREAM")
	colliding.refused(colliding.startProjector(0), "projector owners release --why TEXT",
		`read model \"userReadModels\" (topic: recorded \"orders\", now \"invoices\"; event store: recorded \"shop.orders\", now \"shop.invoices\")`,
		`projection \"users\" (`, "PENSTOCK_READMODELS_DATABASE")

	// A second pipeline on the first one's subscription would receive some of its events.
	thief := newRelease(t, both, "orders", shop.New(1, 53), "PENSTOCK_READMODELS_DATABASE=other")
	thief.refused(thief.startProjector(0), "projector owners release --why TEXT", `read models' database: recorded \"readmodels\", now \"other\"`)

	// The lease of one stream's publishers cannot be used by another stream.
	lease := newRelease(t, both, "invoices", shop.New(1, 54), "PENSTOCK_STREAM=invoices")
	lease.refused(lease.startPublisher(0), `lease \"shared\" is that of stream \"events\"`, "PENSTOCK_LEASE_NAME")

	second := newRelease(t, both, "invoices", shop.New(2000, 52), "PENSTOCK_STREAM=invoices",
		"PENSTOCK_STATE_DATABASE=penstock-invoices", "PENSTOCK_READMODELS_DATABASE=readmodels-invoices")
	second.models = second.client.Database("readmodels-invoices")
	second.start(1, 1)
	second.insert(second.workload.Events...)
	first.insert(first.workload.Events[1000:]...)
	first.awaitReadModels()
	second.awaitReadModels()
}

// releaseBackend is the shared servers with the topic of one of several pipelines.
type releaseBackend struct {
	*harness.Embedded
	topic string
}

// Bus implements [harness.Backend].
func (b releaseBackend) Bus() harness.Bus {
	return harness.Bus{ConnectionString: b.Broker.ConnectionString(), Topic: b.topic, Subscription: "projector"}
}

// Close implements [harness.Backend]: the servers belong to all pipelines.
func (releaseBackend) Close() error { return nil }

// newRelease prepares a pipeline that reads the collection of that name and publishes to
// the topic of that name. All publishers have the same lease name.
func newRelease(t *testing.T, servers *harness.Embedded, name string, w *workload.Workload, env ...string) *scenario {
	t.Helper()
	s := newScenarioOver(t, w, releaseBackend{servers, name})
	s.SetEnv(append([]string{"PENSTOCK_LEASE_NAME=shared", "PENSTOCK_EVENTS_COLLECTION=" + name}, env...)...)
	s.events = s.events.Database().Collection(name)
	createIndex(t, s.events)
	return s
}
