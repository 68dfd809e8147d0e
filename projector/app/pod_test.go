package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// cluster is a database with an event store, in which pods project. A pod is a whole
// projector without the broker; the test delivers the events instead.
type cluster struct {
	t        *testing.T
	database *mongo.Database
	catalog  *catalog.Catalog
	jobs     *job.Store
	// heads are the last events of the aggregates.
	heads map[string]int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, database: server.Database(t), heads: map[string]int64{}}
	c.catalog = catalog.NewCatalog(c.database.Collection(catalog.CatalogName), "")
	c.jobs = job.NewStore(c.database, job.Options{})
	mongotest.IndexEvents(t, c.database.Collection("events"))
	return c
}

// clusterPod is one of the projectors.
type clusterPod struct {
	*upkeep
	t      *testing.T
	engine *engine.Engine
	reader *event.Reader
	stop   func()
}

// pod starts a projector with these projections. It stops at the end of the test, or when
// stop is called.
func (c *cluster) pod(rate int, projections ...*Projection) *clusterPod {
	c.t.Helper()
	pod, err := c.tryPod(rate, projections...)
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// tryPod is pod for a projector that may refuse to start.
func (c *cluster) tryPod(rate int, projections ...*Projection) (*clusterPod, error) {
	t := c.t
	t.Helper()
	p := &Projector{projections: projections, compiler: operate.NewCompiler(projections), logger: zerolog.Nop(), registry: obs.NewRegistry()}
	p.config.Fields = event.DefaultFields()
	p.config.Projections.FailureLimit = 0.2
	p.config.History = config.History{RefoldRate: new(rate), VerifySample: 1}
	s := &config.Stores{ReadModels: c.database, State: c.database, Events: c.database.Collection("events")}
	name := podName("host")
	loader, writer := readmodel.NewLoader(c.database, readmodel.LoaderOptions{}), readmodel.NewWriter(c.database, readmodel.WriterOptions{})
	parked := park.NewStore(park.In(s.State), park.Options{Reasons: operate.Reasons()})
	events := eventstore.NewReader(s.Events, p.config.Fields, p.logger)
	registry := p.newRegistry(s, name)
	pod := &clusterPod{t: t}
	pod.engine = engine.New(engine.Options{Store: readModels{loader, writer}, Parking: parked, Repairer: events, Trusted: registry.Trusted})
	pod.reader = event.NewReader(p.config.Fields)
	pod.upkeep = p.newHistory(s, name, registry, parked, newTargets(pod.engine, parked, s.ReadModels, p.compiler, false))
	workers := p.workers(s, pod.engine, readModels{loader, writer}, parked, events, new(history.Activity))
	pod.runner = job.NewRunner(job.RunnerOptions{Jobs: pod.jobs, Workers: map[job.Kind]job.Worker{job.Build: workers, job.Sweep: workers, job.Verify: workers}, Holder: name, Small: smallJob(p.config.History.JobRate()), Here: workers.Serves, Poll: 50 * time.Millisecond})
	pod.coordinator = p.coordinator(s, pod.upkeep, parked, events)
	if err := park.Prepare(t.Context(), park.In(s.State)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	start := func(runs ...func(context.Context) error) {
		for _, run := range runs {
			running.Go(func() { _ = run(ctx) })
		}
	}
	pod.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(pod.stop)
	start(loader.Run, writer.Run, parked.Run)
	if err := p.startHistory(t.Context(), s, pod.upkeep); err != nil {
		return nil, err
	}
	start(pod.follower.Run, pod.runner.Run, pod.coordinator.Run)
	return pod, nil
}

// visits declares a projection that counts an aggregate's events times a factor.
func visits(t *testing.T, factor int) *Projection {
	t.Helper()
	return visitsIn(t, "visits", factor)
}

// visitsIn is visits with another collection.
func visitsIn(t *testing.T, collection string, factor int) *Projection {
	t.Helper()
	return projectiontest.One(t, fmt.Sprintf(`
projections:
  - {name: visits, collection: %s, on: {Came: {inc: {n: "%d"}, set: {factor: "%d"}}}}`, collection, factor, factor))
}

// came returns an event.
func came(aggregate string, id int64) bson.D {
	return bson.D{
		{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Came"},
		{Key: "payload", Value: bson.D{{Key: "at", Value: id}}},
	}
}

// store stores the next event of each aggregate, and returns the documents.
func (c *cluster) store(aggregates ...string) []any {
	c.t.Helper()
	documents := make([]any, len(aggregates))
	for i, name := range aggregates {
		c.heads[name]++
		documents[i] = came(name, c.heads[name])
	}
	if _, err := c.database.Collection("events").InsertMany(c.t.Context(), documents); err != nil {
		c.t.Fatal(err)
	}
	return documents
}

// deliver passes documents of the event store to the pod until they are settled.
func (p *clusterPod) deliver(documents []any) {
	p.t.Helper()
	events := make([]*event.Event, len(documents))
	for i, document := range documents {
		ev, err := p.reader.Read(testkit.Raw(document))
		if err != nil {
			p.t.Fatal(err)
		}
		events[i] = &ev
	}
	for len(events) > 0 {
		results, err := p.engine.Process(p.t.Context(), events, time.Time{})
		if p.t.Context().Err() != nil {
			p.t.Fatalf("%d events were not projected: %v", len(events), err)
		}
		var pending []*event.Event
		for i, r := range results {
			if r.Outcome != model.Done {
				pending = append(pending, events[i])
			}
		}
		events = pending
	}
}

// visit is a read model of visits.
type visit struct {
	ID                     string `bson:"_id"`
	N, Factor, LastEventID int64
}

// wrong returns which documents of a collection differ from the fold of the stored events.
func (c *cluster) wrong(collection string, factor int64) string {
	cursor, err := c.database.Collection(collection).Find(c.t.Context(), bson.D{})
	if err != nil {
		return err.Error()
	}
	var all []visit
	if err := cursor.All(c.t.Context(), &all); err != nil {
		return err.Error()
	}
	for _, v := range all {
		if head := c.heads[v.ID]; v != (visit{v.ID, factor * head, factor, head}) {
			return fmt.Sprintf("%+v, want %d events with factor %d", v, head, factor)
		}
	}
	if len(all) != len(c.heads) {
		return fmt.Sprintf("%d documents, want %d", len(all), len(c.heads))
	}
	return ""
}

// right checks that the read models equal the fold of the events.
func (c *cluster) right(factor int64) {
	c.t.Helper()
	if wrong := c.wrong("visits", factor); wrong != "" {
		c.t.Errorf("read models of visits: %s", wrong)
	}
}

func (c *cluster) entry() *catalog.Entry {
	c.t.Helper()
	entries, err := c.catalog.List(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return entries["visits"]
}

// await waits until holds returns true for the entry of visits: for at most three minutes on a
// busy machine.
func (c *cluster) await(what string, holds func(e *catalog.Entry) bool) *catalog.Entry {
	c.t.Helper()
	late := time.After(3 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		e := c.entry()
		if e != nil && holds(e) {
			return e
		}
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("not within three minutes: %s; the catalog has %+v, building %+v", what, e, e.Building)
		}
	}
}

// live waits until a generation is live and nothing is being built.
func (c *cluster) live(number int64) {
	c.t.Helper()
	c.await(fmt.Sprintf("generation %d live", number), func(e *catalog.Entry) bool {
		return e.Live != nil && nth(e) == number && e.Live.Generation == e.Generations && e.Building == nil
	})
}

// nth counts the generations that an entry has had.
func nth(e *catalog.Entry) int64 {
	numbers := map[int64]bool{}
	for _, r := range e.History {
		numbers[r.Generation] = true
	}
	return int64(len(numbers))
}

// change changes the entry in the way of a command.
func (c *cluster) change(do func(e *catalog.Entry) (*catalog.Entry, error)) error {
	for {
		old := c.entry()
		next, err := do(old)
		if err != nil {
			return err
		}
		if _, err = c.catalog.Write(c.t.Context(), old, next); !errors.Is(err, catalog.ErrConflict) {
			return err
		}
	}
}

// shadows are the collections of generations that are not live.
func (c *cluster) shadows() []string {
	c.t.Helper()
	names, err := c.database.ListCollectionNames(c.t.Context(), bson.D{{Key: "name", Value: bson.Regex{Pattern: `\.generation-`}}})
	if err != nil {
		c.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// names returns the names of n aggregates.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("a-%03d", i)
	}
	return all
}
