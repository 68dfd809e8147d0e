package operate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// writeFiles writes the files of a folder that have a text.
func writeFiles(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runCases runs a test file in a folder of its own, with projections.yaml if there are
// declarations.
func runCases(t *testing.T, declarations, cases string) (printed string, err error) {
	t.Helper()
	folder := t.TempDir()
	writeFiles(t, folder, map[string]string{"projections.yaml": declarations, "projections_test.yaml": cases})
	var out bytes.Buffer
	c := &testCommand{Paths: []string{folder}}
	err = c.run(t.Context(), &Environment{stdout: &out, stderr: &out})
	return out.String(), err
}

const countedTwice = `
tests:
  - name: events are counted
    aggregateId: a
    given: [{eventType: Counted}, {eventType: Counted}]
    expect: {calls: {a: {n: 2}}}
`

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

// TestCasesOfViews checks that views pass: they share documents between aggregates,
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

// TestCasesWithOlderUUIDs checks that aggregate ids of subtype 3 are read in the order of the
// connection string.
func TestCasesWithOlderUUIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"counts.yaml": `
projections: [{name: counts, collection: counts, on: {Counted: {inc: {n: "1"}}}}]
`, "counts_test.yaml": `
projections: [counts.yaml]
tests:
  - name: an older UUID
    given: [{eventType: Counted, aggregateId: {$binary: {base64: AAECAwQFBgcICQoLDA0ODw==, subType: "03"}}}]
    expect: {counts: {03020100-0504-0706-0809-0a0b0c0d0e0f: {n: 1}}}
`})
	if stdout, stderr, err := runLine(t, map[string]string{"MONGODB_URI": "mongodb://h/?uuidRepresentation=csharpLegacy"}, "test", dir); err != nil {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
	if _, stderr, err := runLine(t, nil, "test", dir); err == nil || !strings.Contains(stderr, "uuidRepresentation") {
		t.Errorf("without the option: %v\n%s", err, stderr)
	}
}
