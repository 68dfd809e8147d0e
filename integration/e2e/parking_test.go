package e2e_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// parked counts the markers of aggregates that have these fields.
func (s *scenario) parked(fields ...bson.E) int {
	s.t.Helper()
	return s.documents(s.state.Collection("parked"), fields...)
}

// documents counts the documents of a collection that have these fields.
func (s *scenario) documents(collection *mongo.Collection, fields ...bson.E) int {
	s.t.Helper()
	n, err := collection.CountDocuments(s.t.Context(), append(bson.D{}, fields...))
	if err != nil {
		s.t.Fatal(err)
	}
	return int(n)
}

// stopped stops a process and waits for its end.
func (s *scenario) stopped(p *harness.Process) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// refused waits until a process ends by itself, and expects these texts in its error.
func (s *scenario) refused(p *harness.Process, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	if err := p.AwaitExit(ctx); err == nil || crashed(p.Err()) {
		s.t.Fatalf("%s ended with %v, want status 1", p.Name, err)
	}
	log, err := os.ReadFile(p.Log)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, text := range want {
		if !strings.Contains(string(log), text) {
			s.t.Errorf("the log does not say %s", text)
		}
	}
	for _, line := range []string{"\ncontext canceled", `\ncontext canceled`} {
		if strings.Contains(string(log), line) {
			s.t.Error("the error ends with that of a goroutine that the end has stopped")
		}
	}
}

// largeReadModels counts events in documents of one megabyte each.
const largeReadModels = `
projections:
  - name: large
    collection: large
    on:
      Counted: {inc: {count: "1"}}
`

// TestLargeReadModelsFitIntoMemory checks that a projector's memory depends on its
// configuration and not on the size of its read models.
func TestLargeReadModelsFitIntoMemory(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	const aggregates, each, size = 150, 3, 1 << 20
	// The read models alone have this size. The Go heap is limited to 96 MiB below. The
	// mapped pages of the executable are about 20 MiB, and a collector that gets little CPU
	// exceeds its limit by some MiB.
	const most = aggregates * size
	w := &workload.Workload{Projections: []byte(largeReadModels), Collections: []string{"large"}}
	filler := strings.Repeat("x", size)
	w.Fold = func(events []workload.Event) (string, bson.M) {
		return "large", bson.M{"filler": filler, "count": int64(len(events) - 1)}
	}
	for id := range int64(each) {
		for a := range aggregates {
			ev := workload.Event{AggregateID: fmt.Sprint("large-", a), AggregateType: "Large", EventID: id + 1, EventType: "Counted", Timestamp: time.Now().UTC(), Payload: bson.D{}}
			if id == 0 {
				ev.EventType = "Filled" // already contained in the read models
			}
			w.Events = append(w.Events, ev)
		}
	}
	s := newScenarioOn(t, w, harness.TopicOptions{}, "PENSTOCK_LOAD_BYTES=8388608", "PENSTOCK_BATCH_SIZE=512", "GOMEMLIMIT=96MiB")
	// Few sessions with many aggregates each, so that a batch needs all documents at the
	// same time.
	s.SetEnv("PENSTOCK_SESSION_MODE=bucket", "PENSTOCK_SESSION_BUCKETS=2")
	// Over an empty event store, the projection is live at once.
	empty := s.startProjector(0)
	s.ready()
	s.stopped(empty)
	for a := range aggregates {
		if _, err := s.models.Collection("large").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: fmt.Sprint("large-", a)}, {Key: "lastEventId", Value: int64(1)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "lastUpdatedAt", Value: time.Now()},
			{Key: "filler", Value: filler}, {Key: "count", Value: int64(0)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.load(0)
	s.finishLoad()
	s.startPublisher(0)
	s.awaitPublished(1)
	projector := s.startProjector(0)
	s.ready()
	s.invariants()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells how much memory another process has had")
	}
	had, err := projector.OS.MaxResident()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the projector had %d MiB at most", had>>20)
	if had > most {
		t.Errorf("the projector had %d MiB, more than %d", had>>20, most>>20)
	}
}

// TestForbiddenEventStoreEndsTheProjector checks that a missing right shows at the
// start, and not only at the first gap.
func TestForbiddenEventStoreEndsTheProjector(t *testing.T) {
	scene(t, forbiddenEventStoreEndsTheProjector)
}

func forbiddenEventStoreEndsTheProjector(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(200, 53))
	servers := s.standIns("refuse the projectors' queries")
	servers.Forbid("find", "")
	s.refused(s.startProjector(0), "(event store)", "the rights that the projector needs", "read on that of the event store")
	servers.Mongo.ClearFaults()
	s.start(1, 1)
	s.load(0)
	s.invariants()
}
