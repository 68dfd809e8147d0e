package authoring_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// typed returns an event of an aggregate type.
func typed(aggregateType, eventType, payload string) *event.Event {
	ev := projectiontest.Event(1, eventType, payload)
	ev.AggregateType = aggregateType
	return ev
}

// TestStarterIsAFileThatWorks checks the exact content of a first file, and that it folds
// the events that it was made from.
func TestStarterIsAFileThatWorks(t *testing.T) {
	t.Parallel()
	events := []*event.Event{
		typed("Order", "OrderPlaced", `{"customer":"Ada","total":{"$numberDecimal":"10.5"},"lines":[{"sku":"a"}],"address":{"city":"Bonn"},"eventCount":3,"in":1,"a-b":2}`),
		typed("Order", "OrderPaid", `{"cents":5,"at":{"$date":"2026-01-02T03:04:05Z"},"mixed":1}`),
		typed("Order", "OrderPaid", `{"mixed":"x"}`),
		typed("User", "UserRegistered", ``),
	}
	events[3].Timestamp = time.Time{}
	var inference authoring.Inference
	for _, ev := range events {
		inference.Add(ev)
	}
	starter, err := inference.Starter("first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(starter.Projections), "projections:\n")
	body, _, _ = strings.Cut(body, "# Inferred")
	const want = `  - name: orders # names its watermarks, metrics and parked list; never change it
    collection: orderReadModels
    aggregateType: Order
    on:
      # fields left out: a-b, eventCount, in, lines
      OrderPlaced:
        inc: {eventCount: "1"}
        set:
          lastEventType: eventType
          lastEventAt: timestamp
          address: payload.?address
          customer: payload.?customer
          total: payload.?total # a number: inc instead of set adds it up, max keeps the largest
      OrderPaid:
        inc: {eventCount: "1"}
        set:
          lastEventType: eventType
          lastEventAt: timestamp
          at: payload.?at
          cents: payload.?cents # a number: inc instead of set adds it up, max keeps the largest
          mixed: payload.?mixed
  - name: users # names its watermarks, metrics and parked list; never change it
    collection: userReadModels
    aggregateType: User
    on:
      UserRegistered:
        inc: {eventCount: "1"}
        set:
          lastEventType: eventType
`
	if body != want {
		t.Errorf("the projections are\n%s\nwant\n%s", body, want)
	}
	_, body, _ = strings.Cut(string(starter.Tests), "tests:\n")
	const tests = `  - name: events of orders are counted, and their last values kept
    aggregateId: one
    aggregateType: Order
    given:
      - eventType: OrderPlaced
        payload:
          customer: some customer
      - eventType: OrderPaid
        payload:
          at: 2026-01-31T12:00:00Z
          cents: 1
    expect:
      orders:
        one:
          eventCount: 2
          lastEventType: OrderPaid
          at: 2026-01-31T12:00:00Z
          cents: 1
          customer: some customer
  - name: events of users are counted, and their last values kept
    aggregateId: one
    aggregateType: User
    given:
      - eventType: UserRegistered
    expect:
      users:
        one:
          eventCount: 1
          lastEventType: UserRegistered
`
	if body != tests {
		t.Errorf("the tests are\n%s\nwant\n%s", body, tests)
	}
	projections, err := projection.Parse("first.yaml", starter.Projections)
	if err != nil || len(projections) != 2 || projections[0].Name() != starter.Names[0] {
		t.Fatalf("%d projections, %v", len(projections), err)
	}
	a := projections[0].Begin(nil)
	for i, ev := range events[:3] {
		ev.EventID = int64(i + 1)
		if err := a.Add([]*event.Event{ev}); err != nil {
			t.Fatal(err)
		}
	}
	const document = `{"eventCount":3,"lastEventType":"OrderPaid","lastEventAt":{"$date":"2026-01-02T03:04:05.006Z"},"address":{"city":"Bonn"},"customer":"Ada","total":{"$numberDecimal":"10.5"},"at":{"$date":"2026-01-02T03:04:05Z"},"cents":5,"mixed":"x"}`
	if got := projectiontest.JSON(t, a.State()); got != projectiontest.JSON(t, testkit.FromJSON(document)) {
		t.Errorf("the document is %s", got)
	}
}

// TestStarterCompilesForAnyEvents checks that the file compiles for any events in the event
// store.
func TestStarterCompilesForAnyEvents(t *testing.T) {
	t.Parallel()
	var inference authoring.Inference
	if _, err := inference.Starter("first.yaml"); err == nil {
		t.Error("no event gives a file")
	}
	fields := make([]string, 0, 200)
	for i := range 200 {
		fields = append(fields, fmt.Sprintf(`"field%d":%d`, i, i))
	}
	for i, ev := range []*event.Event{
		typed("", "E", `{"a":1}`), typed("Übung", "E: #1", `{"a":null}`), typed("événement", "- x", `{"a":{"b":{}}}`),
		typed("Order", "true", `{"a":[]}`), typed("order", "null", `{"_id":1,"lastEventId":2,"$a":1,"a.b":2,"":3}`),
		typed("orders", "123", "{"+strings.Join(fields[:60], ",")+"}"), typed("42", "E2", "{"+strings.Join(fields, ",")+"}"),
		typed(strings.Repeat("x", 300), "E3", `{"a":{"$binary":{"base64":"AA==","subType":"00"}}}`), typed("boss", "E4", ``), typed("bos", "E5", ``),
		typed("T", "E6", ``), typed("event", "E7", ``), typed("projection", "E8", ``), typed("$Item", "E9", ``),
	} {
		if i == 10 {
			ev.Payload = testkit.FromJSON(`{"a":"text"}`).Lookup("a")
		}
		inference.Add(ev)
	}
	starter, err := inference.Starter("first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	projections, err := projection.Parse("first.yaml", starter.Projections)
	if err != nil || len(projections) != len(starter.Names) || len(projections) != 14 || !slices.Contains(starter.Names, "items") {
		t.Errorf("%d projections: %v, %v", len(projections), starter.Names, err)
	}
}

// TestStarterIsWrittenWhateverTheNamesAre gives a file to a store in which one event type or one
// field has a name that a file cannot hold.
func TestStarterIsWrittenWhateverTheNamesAre(t *testing.T) {
	t.Parallel()
	names := []string{"*", "Order*", "a | b", "a|b", "a\nb", "\x01", "\x7f", "\u0085", "\u2028", "\u202e", "\ufeff", "\ufffe", " x ", "on", "~", "1", "a: b", "# c", "<<", "$a", "a.b", "'q'", "in", "true", "package", "if"}
	for _, name := range names {
		field, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		var inference authoring.Inference
		inference.Add(typed("Order", "Placed", fmt.Sprintf(`{"b":1,%s:1,"c":{%s:1}}`, field, field)))
		inference.Add(typed("Order", name, `{"a":1}`))
		inference.Add(typed(name, "Paid", `{"a":1}`))
		starter, err := inference.Starter("first.yaml")
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
		leftOut := strings.Contains(name, "*") || strings.Contains(name, " | ")
		if got := inference.LeftOut(); leftOut != slices.Contains(got, name) {
			t.Errorf("%q: left out: %q", name, got)
		}
		if slices.Contains([]string{"on", "package", "if"}, name) && !strings.Contains(string(starter.Projections), "payload.?"+name) {
			t.Errorf("%q: the file lacks the field:\n%s", name, starter.Projections)
		}
		if !strings.Contains(string(starter.Projections), "payload.?b") {
			t.Errorf("%q: the file lacks the other field:\n%s", name, starter.Projections)
		}
	}
}
