package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/examples/applied"
	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// appliedProjections counts events, and deletes closed aggregates. The projection orders gets no
// event of them.
const appliedProjections = countsProjection + `      Closed: {delete: true}
  - {name: orders, collection: orders, aggregateType: Order, on: {Counted: {inc: {n: 1}}}}
`

// TestReadYourWrites checks GET /applied: after its answer an event is in the read model,
// and the answer comes immediately if the event will never be there.
func TestReadYourWrites(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	address, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := newScenarioOn(t, &workload.Workload{Projections: []byte(appliedProjections), Collections: []string{"counts"}},
		harness.TopicOptions{}, "PENSTOCK_QUERY_ADDRESS="+address)
	s.start(1, 1)
	client := applied.Client{BaseURL: "http://" + address}
	event := func(aggregate string, id int64) applied.Event {
		return applied.Event{Projection: "counts", AggregateID: aggregate, EventID: id}
	}
	one := bson.D{{Key: "n", Value: int64(1)}}

	// Many requests wait before the events are stored.
	const aggregates = 200
	var waiting sync.WaitGroup
	for i := range aggregates {
		waiting.Go(func() {
			id := fmt.Sprint("a-", i)
			if err := awaitApplied(t, &client, event(id, 2)); err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if got := s.count(id); got != "n=2 after event 2" {
				t.Errorf("%s: applied, but the read model has %s", id, got)
			}
		})
	}
	s.await("all are waiting", func() bool {
		metrics, err := s.Running()[0].Metrics(t.Context())
		return err == nil && metrics.Sum("penstock_projector_applied_waiting_pairs") == aggregates
	})
	var events []workload.Event
	for id := range int64(2) {
		for i := range aggregates {
			events = append(events, counted(fmt.Sprint("a-", i), id+1, one))
		}
	}
	s.insert(events...)
	waiting.Wait()

	// The side watermark of a deleted document counts.
	closed := counted("a-0", 3, bson.D{})
	closed.EventType = "Closed"
	s.insert(closed, counted("a-1", 3, one))
	if err := awaitApplied(t, &client, event("a-0", 3), event("a-1", 3)); err != nil {
		t.Error(err)
	}
	if got := s.count("a-0") + ", " + s.count("a-1"); got != "mongo: no documents in result, n=3 after event 3" {
		t.Errorf("applied, but the read models have %s", got)
	}

	// An event that cannot be applied is reported as soon as its aggregate is parked.
	s.insert(counted("a-2", 3, bson.D{}))
	if err := awaitApplied(t, &client, event("a-1", 3), event("a-2", 3)); !errors.Is(err, applied.ErrParked) || !strings.HasSuffix(err.Error(), ": a-2 in counts at event 3 (expression)") {
		t.Errorf("parked: %v", err)
	}

	// An event of a type without a rule is applied, also if there is no document. An event of
	// an aggregate of another type never is.
	unlisted := counted("a-5", 3, bson.D{})
	first := counted("unlisted", 1, bson.D{})
	unlisted.EventType, first.EventType = "Unlisted", "Unlisted"
	s.insert(unlisted, first)
	if err := awaitApplied(t, &client, event("a-5", 3), event("unlisted", 1)); err != nil {
		t.Errorf("of a type without a rule: %v", err)
	}

	// When the time is up, the answer has watermark and head, if the event store answers in time.
	timesOut := func(target string, watermark, head int64) {
		s.await(target, func() bool {
			var answer struct {
				Result string
				Pairs  []struct {
					Result          string
					Watermark, Head int64
				}
			}
			s.get(address, "/applied?projection="+target, http.StatusOK, &answer)
			return answer.Result == "timeout" && answer.Pairs[0].Result == "timeout" && answer.Pairs[0].Watermark == watermark && answer.Pairs[0].Head == head
		})
	}
	timesOut("counts&aggregateId=a-4&eventId=9&timeout=300ms", 2, 2)
	timesOut("orders&aggregateId=a-4&eventId=1&timeout=0s", 0, 2) // of another type
	timesOut("counts&aggregateId=nobody&eventId=1&timeout=0s", 0, 0)
	s.erase(1, "no place that the command searches had this id", "--aggregate=nobody", "--why=request 1", "--yes")
	timesOut("counts&aggregateId=nobody&eventId=1&timeout=0s", 0, 0)
	var refusal struct{ Error string }
	s.get(address, "/applied?projection=users&aggregateId=a-3&eventId=9", http.StatusNotFound, &refusal)
	if refusal.Error != `there is no projection "users": ask for one of counts, orders` {
		t.Errorf("unknown projection: %s", refusal.Error)
	}
	s.get(address, "/applied?projection=counts&aggregateId=a-3&eventId=first", http.StatusBadRequest, &refusal)
	if refusal.Error != `eventId is "first": give a whole number from 1` {
		t.Errorf("wrong request: %s", refusal.Error)
	}
	// A request of 100 kB would let 2,600 connections exhaust the memory of the projector.
	large, err := http.Get("http://" + address + "/applied?projection=counts&eventId=1&aggregateId=" + strings.Repeat("a", 100<<10)) //nolint:noctx // The server answers immediately.
	if err != nil {
		t.Fatal(err)
	}
	_ = large.Body.Close()
	if large.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a request of 100 kB: %s", large.Status)
	}
}

// awaitApplied repeats the request while the answer is that its time is up. A request waits
// for a minute at most.
func awaitApplied(t *testing.T, client *applied.Client, events ...applied.Event) error {
	t.Helper()
	for deadline := time.Now().Add(settleTimeout()); ; {
		err := client.Await(t.Context(), time.Minute, events...)
		if !errors.Is(err, applied.ErrTimeout) || time.Now().After(deadline) {
			return err
		}
	}
}

// get reads the JSON of an answer.
func (s *scenario) get(address, target string, status int, into any) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		s.t.Fatalf("%s: %s, want %d", target, response.Status, status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		s.t.Fatalf("%s: %v", target, err)
	}
}
