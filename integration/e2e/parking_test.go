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
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// parked counts the markers with a reason.
func (s *scenario) parked(reason string) int64 {
	s.t.Helper()
	n, err := s.state.Collection("parked").CountDocuments(s.t.Context(), bson.D{{Key: "reason", Value: reason}})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
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

// refused waits until a projector ends by itself, and expects these texts in its error.
func (s *scenario) refused(p *harness.Process, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	if err := p.AwaitExit(ctx); err == nil || crashed(p.Err()) {
		s.t.Fatalf("the projector ended with %v, want status 1", err)
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
}

// TestMissingEventParksAndResumes checks that an event parks its aggregate if neither the
// topic nor the event store has the event before it. Other aggregates continue. The
// aggregate catches up when the event store has the missing event, without any further
// message.
func TestMissingEventParksAndResumes(t *testing.T) { scene(t, missingEventParksAndResumes) }

func missingEventParksAndResumes(t *testing.T) {
	t.Helper()
	w := shop.New(3000, 51)
	var late workload.Event
	for i, ev := range w.Events {
		if ev.EventType == "ItemAddedToOrderEvent" && ev.EventID == 2 {
			late = ev
			w.Events = append(w.Events[:i:i], w.Events[i+1:]...)
			break
		}
	}
	s := newScenarioOn(t, w, harness.TopicOptions{}, "PENSTOCK_GAP_TIMEOUT=1s")
	publisher := s.startPublisher(0)
	s.startProjector(0)
	s.startProjector(1)
	s.ready()
	s.load(time.Second)
	s.finishLoad()
	s.await("the aggregate parked as missing", func() bool { return s.parked("missing") == 1 })
	s.await("all other read models right", func() bool { return len(s.compare().Findings) == 1 })
	s.await("all messages settled", func() bool {
		backlog, err := s.backend.Backlog()
		return err == nil && backlog == harness.Backlog{}
	})
	// No publisher runs, so the event that closes the gap is not published.
	s.stopped(publisher)
	if _, err := s.events.InsertOne(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	s.await("the aggregate resumed", func() bool { return s.parked("missing") == 0 })
	s.awaitReadModels()
}

// TestUniqueValueChangesHands checks that aggregates that exchange a value with a unique
// index get their final values, in whatever order their events arrive.
func TestUniqueValueChangesHands(t *testing.T) { scene(t, uniqueValueChangesHands) }

func uniqueValueChangesHands(t *testing.T) {
	t.Helper()
	const pairs = 60
	w := shop.New(10, 52)
	w.Events = nil
	event := func(aggregate string, id int64, kind string, payload bson.D) workload.Event {
		return workload.Event{AggregateID: aggregate, AggregateType: "User", EventID: id, EventType: kind, Timestamp: time.Now().UTC().Truncate(time.Millisecond), Payload: payload}
	}
	registered := func(aggregate, email string) workload.Event {
		return event(aggregate, 1, "UserRegisteredEvent", bson.D{{Key: "name", Value: aggregate}, {Key: "email", Value: email}})
	}
	moved := func(aggregate string, id int64, email string) workload.Event {
		return event(aggregate, id, "UserEmailUpdatedEvent", bson.D{{Key: "newEmail", Value: email}})
	}
	for i := range pairs {
		one, two := fmt.Sprintf("one-%d", i), fmt.Sprintf("two-%d", i)
		x, y := one+"@x", two+"@y"
		w.Events = append(w.Events, registered(one, x), registered(two, y))
		first := []workload.Event{moved(one, 2, one+"@between"), moved(one, 3, y)}
		second := moved(two, 2, x)
		if i%2 == 0 {
			w.Events = append(append(w.Events, first...), second)
		} else {
			w.Events = append(append(w.Events, second), first...)
		}
	}
	s := newScenario(t, w)
	if _, err := s.models.Collection("userReadModels").Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "email", Value: 1}}, Options: options.Index().SetUnique(true),
	}); err != nil {
		t.Fatal(err)
	}
	s.start(1, 2)
	s.load(0)
	s.invariants()
	if n := s.parked("rejected"); n != 0 {
		t.Errorf("%d aggregates are parked", n)
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
	w := &workload.Workload{Name: "large", Projections: []byte(largeReadModels), Collections: []string{"large"}}
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
	for a := range aggregates {
		if _, err := s.models.Collection("large").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: fmt.Sprint("large-", a)}, {Key: "lastEventId", Value: int64(1)}, {Key: "lastUpdatedAt", Value: time.Now()},
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
	store := capability[readForbidder](s, "refuse the projectors' queries")
	store.ForbidReading()
	s.refused(s.startProjector(0), "(event store)", "the rights that the projector needs", "read on that of the event store")
	store.HealStore()
	s.start(1, 1)
	s.load(0)
	s.invariants()
}
