package operate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// runCases runs a test file in a folder of its own, with projections.yaml if there are
// declarations.
func runCases(t *testing.T, declarations, cases string, inCode ...*projection.Projection) (printed string, err error) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"projections.yaml": declarations, "projections_test.yaml": cases} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	c := &testCommand{Paths: []string{folder}, Seed: 1}
	err = c.run(t.Context(), &Environment{stdout: &out, stderr: &out, inCode: inCode})
	return out.String(), err
}

const countedTwice = `
tests:
  - name: events are counted
    aggregateId: a
    given: [{eventType: Counted}, {eventType: Counted}]
    expect: {calls: {a: {n: 2}}}
`

// TestImpureProjectionFails checks that a projection in Go fails if its result depends on
// more than the state and the event, even if the case's expectation is met.
func TestImpureProjectionFails(t *testing.T) {
	t.Parallel()
	for _, pure := range []bool{true, false} {
		calls := int32(0)
		p, err := projection.New(projection.Declaration{Name: "calls", Collection: "calls", Apply: func(state projection.State, _ *event.Event) (projection.State, error) {
			calls++
			n := calls
			if pure {
				before, _ := state.Lookup("n").AsInt64OK()
				n = int32(before) + 1
			}
			return bson.Marshal(bson.D{{Key: "n", Value: n}})
		}})
		if err != nil {
			t.Fatal(err)
		}
		printed, err := runCases(t, "", countedTwice, p)
		if pure && err != nil {
			t.Errorf("a pure function: %v\n%s", err, printed)
		}
		if !pure && (!errors.Is(err, cli.ErrFindings) || !strings.Contains(printed, "rebuilt from the event store") || !strings.Contains(printed, "n: as given 2, here ")) {
			t.Errorf("an impure function: %v\n%s", err, printed)
		}
	}
}

// TestCasesOfAnIncreasingSequence checks that a test file can declare that ids have holes.
func TestCasesOfAnIncreasingSequence(t *testing.T) {
	t.Parallel()
	declarations := `projections: [{name: calls, collection: calls, on: {Counted: {inc: {n: "payload.n"}}}}]`
	cases := `
sequence: increasing
tests:
  - name: ids with holes
    aggregateId: a
    given:
      - {eventType: Counted, eventId: 10, payload: {n: 1}}
      - {eventType: Counted, eventId: 20, payload: {n: 2}}
      - {eventType: Counted, eventId: 30, payload: {}}
      - {eventType: Counted, payload: {n: 8}}
    expect: {calls: {a: {n: 3, lastEventId: 20}}}
    expectParked: {calls: {a: {eventId: 30}}}
`
	if printed, err := runCases(t, declarations, cases); err != nil {
		t.Errorf("%v\n%s", err, printed)
	}
}

// TestTrialCrashesAfterEveryWrite checks that the trial restarts the projector after every
// write, and that the projector reaches the same state.
func TestTrialCrashesAfterEveryWrite(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
projections:
  - {name: a, collection: a, on: {E: {inc: {n: payload.n}}, D: {delete: true}}}
  - {name: b, collection: b, on: {E: {push: {all: payload.n}}}}
`)
	var states []string
	for _, crashing := range []bool{false, true} {
		trial, err := newTrial(projections, event.SequenceStrict)
		if err != nil {
			t.Fatal(err)
		}
		if crashing {
			trial.CrashAfterWrites()
		}
		for i, d := range []bson.D{
			{{Key: "eventType", Value: "E"}, {Key: "payload", Value: bson.D{{Key: "n", Value: 1}}}},
			{{Key: "eventType", Value: "D"}},
			{{Key: "eventType", Value: "E"}, {Key: "payload", Value: bson.D{{Key: "n", Value: 2}}}},
			{{Key: "eventType", Value: "E"}, {Key: "payload", Value: bson.D{}}},
		} {
			document := bsontest.Raw(append(d, bson.E{Key: "aggregateId", Value: "x"}, bson.E{Key: "eventId", Value: i + 1}))
			if err := trial.Append(document); err != nil {
				t.Fatal(err)
			}
		}
		engine := trial.engine
		if err := trial.Deliver(t.Context(), []int{0, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		if crashed := engine != trial.engine; crashed != crashing {
			t.Errorf("the projector has crashed: %t, want %t", crashed, crashing)
		}
		state := trial.State()
		states = append(states, state.Documents["a"]["x"].String()+state.Documents["b"]["x"].String())
		if len(state.Parked) != 2 || state.Parked[0].EventID != 4 {
			t.Errorf("parked %+v", state.Parked)
		}
	}
	if states[0] != states[1] {
		t.Errorf("without crashes %s, with them %s", states[0], states[1])
	}
}

// TestTestCommandReportsFilesThatCannotBeRead checks that mistakes in a file are printed
// with their place, and do not count as failures of cases.
func TestTestCommandReportsFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ declarations, cases, says string }{
		"no projections":    {"", countedTwice, "no *.yaml or *.yml file of projections"},
		"wrong projections": {"projections: [{name: calls}]", countedTwice, "the projection has no collection"},
		"wrong case":        {"projections: [{name: calls, collection: calls, on: {Counted: {inc: {n: 1}}}}]", strings.Replace(countedTwice, "calls", "cals", 1), "projections_test.yaml:6:21: case events are counted: there is no projection cals"},
	} {
		if printed, err := runCases(t, test.declarations, test.cases); !errors.Is(err, cli.ErrUsage) || !strings.Contains(printed, test.says) {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
	}
}

const shopViews = `
views:
  - name: customerOrders
    collection: customerOrders
    from:
      - aggregateType: Customer
        key: aggregateId
        keep: fields
        on:
          CustomerRegistered: {set: {name: payload.name}}
          CustomerDeleted: {delete: true}
      - aggregateType: Order
        key: state.customerId
        as: orders
        on:
          OrderPlaced: {set: {customerId: "payload.?customerId", status: "'open'", totalCents: payload.totalCents, placedAt: timestamp}}
          OrderShipped: {set: {status: "'shipped'"}}
          OrderAssigned: {set: {customerId: payload.customerId}}
          OrderCancelled: {delete: true}
        totals:
          openCents: {sum: part.totalCents, where: part.status == 'open'}
          count: {count: true}
          lastPlaced: {max: part.placedAt}
  - name: productSales
    collection: productSales
    from:
      - aggregateType: Order
        each: state.lines
        key: element.sku
        on:
          OrderPlaced: {set: {lines: payload.lines}}
          OrderCancelled: {delete: true}
        totals:
          sold: {sum: element.quantity}
          orders: {count: true}
`

const shopCases = `
tests:
  - name: the orders of a customer are in one document
    steps:
      - given:
          - {eventType: CustomerRegistered, aggregateId: c-1, payload: {name: Ann}}
          - {eventType: OrderPlaced, aggregateId: o-1, payload: {customerId: c-1, totalCents: 500, lines: [{sku: tea, quantity: 2}]}}
          - {eventType: OrderPlaced, aggregateId: o-2, payload: {customerId: c-1, totalCents: 700, lines: [{sku: tea, quantity: 1}, {sku: cup, quantity: 4}]}}
          - {eventType: OrderPlaced, aggregateId: o-3, payload: {totalCents: 10, lines: []}}
          - {eventType: OrderShipped, aggregateId: o-1}
        exact: true
        expect:
          customerOrders:
            c-1:
              name: Ann
              openCents: 700
              count: 2
              lastPlaced: 2026-01-01T00:00:02Z
              orders:
                o-1: {customerId: c-1, placedAt: 2026-01-01T00:00:01Z, status: shipped, totalCents: 500}
                o-2: {customerId: c-1, placedAt: 2026-01-01T00:00:02Z, status: open, totalCents: 700}
          productSales:
            tea: {sold: 3, orders: 2}
            cup: {sold: 4, orders: 1}
      - given:
          - {eventType: OrderAssigned, aggregateId: o-2, payload: {customerId: c-2}}
          - {eventType: CustomerDeleted, aggregateId: c-1}
        expect:
          customerOrders:
            c-1: {parts: 1, name: null, openCents: 0, count: 1, lastPlaced: 2026-01-01T00:00:01Z}
            c-2: {parts: 1, openCents: 700, count: 1, lastPlaced: 2026-01-01T00:00:02Z}
      - given:
          - {eventType: OrderCancelled, aggregateId: o-1}
          - {eventType: OrderAssigned, aggregateId: o-3, payload: {customerId: c-1}}
          - {eventType: OrderCancelled, aggregateId: o-2}
        expect:
          customerOrders: {c-1: {count: 1, openCents: 10}, c-2: null}
          productSales: {tea: null, cup: null}
  - name: an order with a wrong amount is parked, and the others count
    given:
      - {eventType: OrderPlaced, aggregateId: o-1, payload: {customerId: c-1, totalCents: 5, lines: [{sku: tea, quantity: 1}]}}
      - {eventType: OrderPlaced, aggregateId: o-2, payload: {customerId: c-1, totalCents: much, lines: [{sku: tea, quantity: 1}]}}
    expect: {customerOrders: {c-1: {count: 1}}, productSales: {tea: {sold: 2}}}
    expectParked: {customerOrders: {o-2: {reason: expression, error: "total openCents: part.totalCents: the value is string, not a number"}}}
`

// TestCasesOfViews checks that views pass in all runs: they share documents between aggregates,
// move parts, delete documents, and fold each source's own events.
func TestCasesOfViews(t *testing.T) {
	t.Parallel()
	if printed, err := runCases(t, shopViews, shopCases); err != nil {
		t.Errorf("%v\n%s", err, printed)
	}
	wrong := strings.Replace(shopCases, "customerOrders: {c-1: {count: 1}}, productSales", "customerOrders: {c-1: {count: 2}, o-2: {count: 1}}, productSales", 1)
	printed, err := runCases(t, shopViews, wrong)
	for _, part := range []string{"customerOrders c-1: count: expected 2, got 1", "customerOrders o-2: expected a document, got nothing, because the aggregate is parked"} {
		if !errors.Is(err, cli.ErrFindings) || !strings.Contains(printed, part) {
			t.Errorf("%v\n%s\nlacks %s", err, printed, part)
		}
	}
}
