package operate

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// A misspelt event type or aggregate type in the event store is named by status and by check
// --connect. A type that the section events declares is left out. An aggregate type of a
// projection without an event is named if a similar type has events that the projection does not
// take.
func TestUnhandledTypesAreNamed(t *testing.T) {
	t.Parallel()
	e, s, out := emptyState(t)
	const file = `
projections:
- {name: books, collection: books, aggregateType: book, on: {BookAdded: {inc: {n: 1}}}}
- {name: loans, collection: loans, aggregateType: loan, on: {LoanOpened: {inc: {n: 1}}}}
- {name: shelves, collection: shelves, aggregateType: Loans, on: {LoanOpened: {inc: {n: 1}}}}
- {name: fines, collection: fines, aggregateType: fine, on: {LoanOpened: {inc: {n: 1}}}}
views:
- name: both
  collection: both
  from:
  - {aggregateType: loan, key: aggregateId, on: {LoanOpened: {inc: {n: 1}}}}
  - {aggregateType: loans, key: aggregateId, on: {LoanOpened: {inc: {n: 1}}}}
`
	e.Config.Projections.Path = writeFile(t, "projections.yaml", file+`
events:
  BookAdded: {type: object}
  BookRead: {type: object}
  ReaderSeen: {type: object}
`)
	e.Config.Fields.EventType, e.Config.Fields.AggregateType = "eventType", "aggregateType"
	e.Projections = projectiontest.All(t, file)
	for _, d := range catalog.Declare(e.Projections...) {
		entry, err := catalog.Start(nil, e.Config.Pipeline().String(), d, 0, catalog.Author{})
		if err == nil {
			_, err = s.catalog.Write(t.Context(), nil, entry)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var events []any
	for i, types := range [][2]string{
		{"book", "BookAdded"}, {"loan", "LoanOpened"},
		{"book", "BookRead"}, {"reader", "ReaderSeen"}, // declared
		{"book", "BookAded"}, {"book", "BookAded"}, {"bok", "BookAdded"}, {"loan", "Audited"}, {"", "LoanOpened"},
	} {
		ev := bson.D{{Key: "_id", Value: i}, {Key: "eventType", Value: types[1]}}
		if types[0] != "" {
			ev = append(ev, bson.E{Key: "aggregateType", Value: types[0]})
		}
		events = append(events, ev)
	}
	events = append(events, bson.D{{Key: "eventType", Value: 7}})
	if _, err := s.Events.InsertMany(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	const want = "event type BookAded (2 events, did you mean BookAdded?), aggregate type bok (1 event, did you mean book?), event type Audited (1 event), event type LoanOpened without an aggregate type (1 event)\n"
	const unused = "among the newest events: aggregate type Loans has no event, did you mean loan?\n"
	_ = new(statusCommand).runOn(t.Context(), e, s)
	if got := out.String(); !strings.Contains(got, "no projection handles, among the newest events: "+want) || !strings.Contains(got, "projections, "+unused) {
		t.Errorf("the status is\n%s", out)
	}
	var r preflight.Report
	var report bytes.Buffer
	e.Projections, _ = load(e.Config.Projections.Path, nil)
	checkEventStore(t.Context(), &r, s.Stores, e)
	if err := r.Print(&report, preflight.Flags{}); !strings.Contains(report.String(), "warning  event store, types: the newest events have types that no projection handles: "+want) ||
		!strings.Contains(report.String(), "warning  projections, types: "+unused) {
		t.Errorf("%v\n%s", err, &report)
	}
}
