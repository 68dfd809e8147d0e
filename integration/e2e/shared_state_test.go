package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// sharing is a pipeline that shares the databases of state and read models with others.
type sharing struct {
	*release
	projection string
	state      *mongo.Database
	models     *mongo.Database
	next       int64
}

func newSharing(t *testing.T, servers *harness.Embedded, name, projection string) *sharing {
	t.Helper()
	client := mongoemutest.Connect(t, servers.Mongo)
	return &sharing{
		release: newRelease(t, servers, name, &workload.Workload{Name: name, Projections: []byte("projections:\n" + tally(projection, projection, 1))},
			"PENSTOCK_STREAM="+name, "PENSTOCK_LEASE_NAME="+name),
		projection: projection, state: client.Database(harness.StateDatabase), models: client.Database(harness.ReadModelsDatabase),
	}
}

// store stores the next event of every aggregate. The aggregates of all pipelines have the
// same ids.
func (s *sharing) store() {
	s.t.Helper()
	s.next++
	var events []workload.Event
	for i := range tallied {
		events = append(events, counted(fmt.Sprint("a-", i), s.next, bson.D{{Key: "n", Value: int64(1)}}))
	}
	if _, err := s.events.InsertMany(s.t.Context(), events); err != nil {
		s.t.Fatal(err)
	}
}

// complete waits until every read model is the fold of all events under one definition.
func (s *sharing) complete(factor int64) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s complete with factor %d at event %d", s.projection, factor, s.next), func() bool {
		n, err := s.models.Collection(s.projection).CountDocuments(s.t.Context(), bson.D{
			{Key: "factor", Value: factor}, {Key: "lastEventId", Value: s.next}, {Key: "n", Value: factor * s.next},
		})
		all, failed := s.models.Collection(s.projection).CountDocuments(s.t.Context(), bson.D{})
		return err == nil && failed == nil && n == tallied && all == tallied
	})
}

// live returns the number of the live generation; 0 if one is being built.
func (s *sharing) live() int64 {
	s.t.Helper()
	var e entry
	err := s.state.Collection("projections").FindOne(s.t.Context(), bson.D{{Key: "_id", Value: s.projection}}).Decode(&e)
	if err != nil || e.Building != nil || e.Live == nil {
		return 0
	}
	return e.Live.Generation
}

// belongings are the data that a rebuild of another pipeline must not change: the catalog
// entry, the identity of the read model's collection, and the jobs of the projection.
func (s *sharing) belongings() (catalog bson.Raw, uuid []byte, jobs int64) {
	s.t.Helper()
	catalog, err := s.state.Collection("projections").FindOne(s.t.Context(), bson.D{{Key: "_id", Value: s.projection}}).Raw()
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := s.models.ListCollectionSpecifications(s.t.Context(), bson.D{{Key: "name", Value: s.projection}})
	if err != nil || len(found) != 1 || found[0].UUID == nil {
		s.t.Fatalf("collection %s: %v, %v", s.projection, found, err)
	}
	jobs, err = s.state.Collection("jobs").CountDocuments(s.t.Context(), bson.D{{Key: "projection", Value: s.projection}, {Key: "kind", Value: bson.D{{Key: "$ne", Value: "reconcile"}}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return catalog, found[0].UUID.Data, jobs
}

// TestRebuildTouchesNoOtherPipeline checks two pipelines with one state database and one
// database of read models, whose aggregates have the same ids. When one of them rebuilds a
// projection, the other's catalog entry, jobs and collections stay unchanged. A third
// pipeline with a projection of the same name is refused.
func TestRebuildTouchesNoOtherPipeline(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	needsStandIns(t, "it brings stand-ins of its own, with three topics")
	servers := startWithTopics(t, "orders", "invoices", "refunds")

	orders, invoices := newSharing(t, servers, "orders", "tallies"), newSharing(t, servers, "invoices", "sums")
	both := []*sharing{orders, invoices}
	for _, s := range both {
		s.start()
		s.store()
		s.complete(1)
	}
	catalog, uuid, jobs := invoices.belongings()
	if jobs != 0 {
		t.Fatalf("%d jobs before any change", jobs)
	}

	path := filepath.Join(t.TempDir(), "projections.yaml")
	if err := os.WriteFile(path, []byte("projections:\n"+tally("tallies", "tallies", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	orders.SetEnv("PENSTOCK_PROJECTIONS=" + path)
	if _, err := orders.StartProjector("projector-2"); err != nil {
		t.Fatal(err)
	}
	orders.until("a rebuild under way", func() bool { return orders.live() != 1 })
	for _, s := range both {
		s.store()
	}
	orders.until("generation 2 of tallies live", func() bool { return orders.live() == 2 })
	for i, s := range both {
		s.store()
		s.complete(int64(2 - i))
	}
	if _, _, jobs := orders.belongings(); jobs < 3 {
		t.Errorf("a rebuild left %d jobs", jobs)
	}
	after, same, jobs := invoices.belongings()
	if !bytes.Equal(after, catalog) || !bytes.Equal(same, uuid) || jobs != 0 {
		t.Errorf("the other pipeline's entry was %s and is %s; collection %x is %x; it has %d jobs", catalog, after, uuid, same, jobs)
	}

	namesake := newSharing(t, servers, "refunds", "tallies")
	namesake.refused(namesake.projector(), `projection \"tallies\" (topic: recorded \"orders\", now \"refunds\"`, "PENSTOCK_ADOPT_READ_MODELS=")
}
