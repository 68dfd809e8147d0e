package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// bomb is an event that makes an expression do or build far more than its own size.
type bomb struct {
	eventType, expression string
	payload               bson.D
}

// bombs are below the size of a message of the tier Standard, so that they arrive in the
// message.
func bombs() []bomb {
	const size = 200_000
	numbers := func(n int) bson.A {
		list := make(bson.A, n)
		for i := range list {
			list[i] = int64(i)
		}
		return list
	}
	return []bomb{
		{"Loops", "payload.a.map(x, payload.a.map(y, x + y)).size()", bson.D{{Key: "a", Value: numbers(size / 16)}}},
	}
}

// TestBombsParkOnlyTheirAggregates inserts events whose evaluation would need minutes or
// gigabytes. A projector with the memory of the chart parks their aggregates, and the
// neighbours' events are applied as fast as always.
func TestBombsParkOnlyTheirAggregates(t *testing.T) {
	inParallel(t)
	const each = 5
	var on strings.Builder
	for _, b := range bombs() {
		fmt.Fprintf(&on, "      %s: {set: {result: %q}}\n", b.eventType, b.expression)
	}
	w := &workload.Workload{
		Name: "bombs", Collections: []string{"attacked", "neighbours"},
		Projections: []byte(`
projections:
  - name: attacked
    collection: attacked
    aggregateType: Attacked
    on:
      Opened: {inc: {count: "1"}}
` + on.String() + `
  - name: neighbours
    collection: neighbours
    aggregateType: Neighbour
    on:
      Counted: {inc: {count: "1"}}
`),
		Fold: func(events []workload.Event) (string, bson.M) {
			collection := "neighbours"
			if events[0].AggregateType == "Attacked" {
				collection = "attacked"
			}
			return collection, bson.M{"count": int64(len(events))}
		},
	}
	// The breaker must not stop the projector: all events of these types fail.
	s := newScenarioOn(t, w, harness.TopicOptions{}, "PENSTOCK_FAILURE_LIMIT=1", chartGoMemLimit)
	s.startPublisher(0)
	projector := s.startProjector(0)
	s.ready()
	neighbours := s.startNeighbours("neighbours", "Neighbour", "Counted")
	for n := range each {
		for _, b := range bombs() {
			id := fmt.Sprintf("%s-%d", b.eventType, n)
			s.until[id] = 1
			for i, ev := range []workload.Event{{EventType: "Opened", Payload: bson.D{}}, {EventType: b.eventType, Payload: b.payload}} {
				ev.AggregateID, ev.AggregateType, ev.EventID, ev.Timestamp = id, "Attacked", int64(i+1), time.Now().UTC()
				w.Events = append(w.Events, ev)
			}
		}
	}
	s.deadLettered = len(s.until)
	s.load(time.Second)
	s.finishLoad()
	neighbours.while("all bombs parked", func() bool {
		parked, err := s.state.Collection("parked").CountDocuments(t.Context(), bson.D{{Key: "reason", Value: "expression"}})
		return err == nil && int(parked) == len(s.until)
	})
	s.fitsChart(projector)
	s.invariants()
}
