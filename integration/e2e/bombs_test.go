package e2e_test

import (
	"fmt"
	"slices"
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
	text := strings.Repeat("a", size/2)
	list := func(n int, element func(i int) any) bson.A {
		list := make(bson.A, n)
		for i := range list {
			list[i] = element(i)
		}
		return list
	}
	numbers := list(size/16, func(i int) any { return int64(i) })
	texts := list(size/18, func(i int) any { return fmt.Sprintf("text%05d", i) })
	var document, reversed bson.D
	for i := range size / 30 {
		document = append(document, bson.E{Key: fmt.Sprintf("field%04d", i), Value: int64(i)})
	}
	reversed = slices.Clone(document)
	slices.Reverse(reversed)
	return []bomb{
		{"Loops", "payload.a.map(x, payload.a.map(y, x + y)).size()", bson.D{{Key: "a", Value: numbers}}},
		{"Replaces", "payload.text.replace(payload.find, payload.by)", bson.D{{Key: "text", Value: text}, {Key: "find", Value: "a"}, {Key: "by", Value: text}}},
		{"Joins", "payload.lines.join(payload.separator)", bson.D{{Key: "lines", Value: texts[:size/40]}, {Key: "separator", Value: text}}},
		{"Formats", "payload.format.format([1.5])", bson.D{{Key: "format", Value: "%.2000000000f"}}},
		{"Copies", "payload.lines.map(l, [payload.order, l]).flatten().join()", bson.D{{Key: "lines", Value: texts[:size/40]}, {Key: "order", Value: text}}},
		{"Searches", "payload.documents.filter(d, !(d in payload.other)).size()", bson.D{{Key: "documents", Value: numbers[:size/40]}, {Key: "other", Value: texts[:size/40]}}},
		{"Sorts", "payload.lines.distinct().size()", bson.D{{Key: "lines", Value: texts}}},
		{"Pairs", "sets.equivalent(payload.lines, payload.lines)", bson.D{{Key: "lines", Value: texts}}},
		{"Compares", "payload.list.exists(x, payload.a == payload.b)", bson.D{{Key: "a", Value: document}, {Key: "b", Value: reversed}, {Key: "list", Value: numbers[:100]}}},
		{"Matches", "payload.text.matches(payload.pattern)", bson.D{{Key: "text", Value: text}, {Key: "pattern", Value: strings.Repeat("(a?){1000}", size/20)}}},
	}
}

// growth is the size of a read model that a small event makes. It is below every limit.
const growth = 3_000_000

// growing is an event that makes a large read model.
func growing() workload.Event {
	return workload.Event{EventType: "Grows", Payload: bson.D{{Key: "text", Value: strings.Repeat("a", 100)}, {Key: "by", Value: strings.Repeat("b", growth/100)}}}
}

// TestBombsParkOnlyTheirAggregates inserts events whose evaluation would need minutes or
// gigabytes, and small ones that make large read models. A projector with the memory of the chart parks their aggregates, and the
// neighbours' events are applied as fast as always.
func TestBombsParkOnlyTheirAggregates(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	const each = 3
	var on strings.Builder
	for _, b := range bombs() {
		fmt.Fprintf(&on, "      %s: {set: {result: %q}}\n", b.eventType, b.expression)
	}
	w := &workload.Workload{
		Collections: []string{"attacked", "neighbours"},
		Projections: []byte(`
projections:
  - name: attacked
    collection: attacked
    aggregateType: Attacked
    on:
      Opened: {inc: {count: "1"}}
      Grows: {inc: {count: "1"}, set: {result: "payload.text.replace('a', payload.by)"}}
` + on.String() + `
  - name: neighbours
    collection: neighbours
    aggregateType: Neighbour
    on:
      Counted: {inc: {count: "1"}}
`),
		Oracle: workload.Oracle{Fold: func(events []workload.Event) (string, bson.M) {
			collection := "neighbours"
			if events[0].AggregateType == "Attacked" {
				collection = "attacked"
			}
			document := bson.M{"count": int64(len(events))}
			if events[len(events)-1].EventType == "Grows" {
				document["result"] = strings.Repeat("b", growth)
			}
			return collection, document
		}},
	}
	s := newScenarioOn(t, w, harness.TopicOptions{}, projectorGoMem)
	s.startPublisher(0)
	projector := s.startProjector(0)
	s.ready()
	neighbours := s.startNeighbours("neighbours", "Neighbour", "Counted")
	add := func(id string, second workload.Event) {
		for i, ev := range []workload.Event{{EventType: "Opened", Payload: bson.D{}}, second} {
			ev.AggregateID, ev.AggregateType, ev.EventID, ev.Timestamp = id, "Attacked", int64(i+1), time.Now().UTC()
			w.Events = append(w.Events, ev)
		}
	}
	for n := range each {
		for _, b := range bombs() {
			id := fmt.Sprintf("%s-%d", b.eventType, n)
			s.until[id] = 1
			add(id, workload.Event{EventType: b.eventType, Payload: b.payload})
			add("growing-"+id, growing())
		}
	}
	s.load(time.Second)
	s.finishLoad()
	neighbours.while("all bombs parked", func() bool {
		return s.parked(bson.E{Key: "reason", Value: "expression"}) == len(s.until)
	})
	s.fitsChart(projector)
	s.invariants()
}
