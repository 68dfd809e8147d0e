package eventlog_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/eventlog"
	"github.com/penstock-cdc/penstock/integration/workload"
)

func write(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cases.ndjson")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenInterleavesByTimeAndKeepsEachAggregatesOrder(t *testing.T) {
	t.Parallel()
	w, err := eventlog.Open(write(t,
		`{"aggregateId":"a","eventId":1,"eventType":"Opened","timestamp":"2020-01-01T00:00:05Z","payload":{"n":1}}`,
		`{"aggregateId":"a","eventId":2,"eventType":"Closed","timestamp":"2020-01-01T00:00:01Z","payload":{"n":2}}`,
		``,
		`{"aggregateId":"b","eventId":1,"eventType":"Opened","timestamp":"2020-01-01T00:00:02Z","payload":{"n":3}}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, ev := range w.Events {
		order = append(order, ev.AggregateID+"/"+ev.EventType)
	}
	if got, want := strings.Join(order, " "), "b/Opened a/Opened a/Closed"; got != want {
		t.Errorf("stores %s, not %s", got, want)
	}
	if w.Name != "cases" || w.Aggregates() != 2 {
		t.Errorf("is %s with %d aggregates", w.Name, w.Aggregates())
	}
	for _, eventType := range []string{`"Opened":`, `"Closed":`} {
		if !strings.Contains(string(w.Projections), eventType) {
			t.Errorf("the projections lack %s:\n%s", eventType, w.Projections)
		}
	}

	collection, document := w.Fold(w.Events[1:])
	if collection != "caseReadModels" || document["events"] != int64(2) || document["lastType"] != "Closed" {
		t.Errorf("folds to %s %v", collection, document)
	}
	if at := document["firstAt"]; at != time.Date(2020, 1, 1, 0, 0, 1, 0, time.UTC) {
		t.Errorf("the first event is dated %v", at)
	}
	if history := document["history"].(bson.A); len(history) != 2 {
		t.Errorf("the history has %d entries", len(history))
	}
	_, changed := w.Change.Fold(w.Events[1:])
	if types, _ := changed[w.Change.Changed[0].Field].(bson.A); document[w.Change.Changed[0].Field] != nil || len(types) != 2 {
		t.Errorf("the types are %v, and %v after the change", document[w.Change.Changed[0].Field], types)
	}
	if at := changed["lastAt"]; at != time.Date(2020, 1, 1, 0, 0, 5, 0, time.UTC) {
		t.Errorf("the last time is %v", at)
	}
	if strings.Contains(string(w.Projections), "types:") || strings.Count(string(w.Change.Projections), "types:") != 2 {
		t.Errorf("the change is\n%s", w.Change.Projections)
	}
}

// A log whose cases have owner groups gets a view of the open cases of each group.
func TestOpenMakesAViewOfGroups(t *testing.T) {
	t.Parallel()
	event := func(id, eventID, eventType, at, payload string) string {
		return `{"aggregateId":"` + id + `","aggregateType":"Case","eventId":` + eventID + `,"eventType":"` + eventType + `","timestamp":"2020-01-01T00:00:0` + at + `Z","payload":` + payload + `}`
	}
	const first, second = `{"org_group":"first"}`, `{"org_group":"second"}`
	w, err := eventlog.Open(write(t,
		event("stays", "1", "Opened", "1", first),
		event("moves", "1", "Opened", "2", first),
		event("moves", "2", "Opened", "3", second),
		event("stays", "2", "Changed", "4", `{}`),
		event("done", "1", "Opened", "5", second),
		event("done", "2", "Completed", "6", second),
		event("reopened", "1", "Completed", "7", second),
		event("reopened", "2", "Opened", "8", second),
		event("alone", "1", "Opened", "9", `{}`),
	))
	if err != nil {
		t.Fatal(err)
	}
	histories := make(map[string][]workload.Event)
	for _, ev := range w.Events {
		histories[ev.AggregateID] = append(histories[ev.AggregateID], ev)
	}
	if len(w.Views) != 1 || !strings.Contains(string(w.Projections), `- aggregateType: "Case"`) || !strings.Contains(string(w.Change.Projections), "\nviews:\n") {
		t.Fatalf("there are %d views, and the projections are\n%s", len(w.Views), w.Projections)
	}
	got := w.Views[0].Fold(slices.Collect(maps.Values(histories)))
	at := func(second int) time.Time { return time.Date(2020, 1, 1, 0, 0, second, 0, time.UTC) }
	want := map[string]bson.M{
		"first": {"parts": int64(1), "count": int64(1), "oldestAt": at(1), "cases": bson.M{
			"stays": bson.M{"group": "first", "lastType": "Changed", "openedAt": at(1)},
		}},
		"second": {"parts": int64(2), "count": int64(2), "oldestAt": at(2), "cases": bson.M{
			"moves":    bson.M{"group": "second", "lastType": "Opened", "openedAt": at(2)},
			"reopened": bson.M{"group": "second", "lastType": "Opened", "openedAt": at(7)},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("folds to\n%v, not\n%v", got, want)
	}

	for name, lines := range map[string][]string{
		"no groups":          {event("a", "1", "Completed", "1", `{}`)},
		"a group is no text": {event("a", "1", "Completed", "1", first), event("b", "1", "Opened", "2", `{"org_group":{"a":1}}`)},
		"nothing completed":  {event("a", "1", "Opened", "1", first)},
	} {
		w, err := eventlog.Open(write(t, lines...))
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Views) != 0 || strings.Contains(string(w.Projections), "views:") {
			t.Errorf("%s: there is a view", name)
		}
	}
}

func TestOpenReadsAFileOfMongoexport(t *testing.T) {
	t.Parallel()
	w, err := eventlog.Open(write(t, `{"_id":{"$oid":"65a0b1c2d3e4f5a6b7c8d9e0"},"aggregateId":{"$oid":"65a0b1c2d3e4f5a6b7c8d9e1"},"eventId":{"$numberLong":"1"},"eventType":"T","timestamp":{"$date":"2020-01-01T00:00:05Z"},"payload":{"n":1},"metadata":{"user":"ada"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if ev := w.Events[0]; ev.AggregateID != "65a0b1c2d3e4f5a6b7c8d9e1" || ev.EventID != 1 || !ev.Timestamp.Equal(time.Date(2020, 1, 1, 0, 0, 5, 0, time.UTC)) {
		t.Errorf("read %+v", ev)
	}
}

func TestOpenReportsTheProblemOfAFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ line, says string }{
		"not JSON":     {`{"aggregateId":`, "line 1:"},
		"no time":      {`{"aggregateId":"a","eventId":1,"eventType":"T","timestamp":"yesterday"}`, "line 1:"},
		"no id":        {`{"aggregateId":{"a":1},"eventId":1,"eventType":"T","timestamp":"2020-01-01T00:00:05Z"}`, "use a text, an ObjectId or an integer"},
		"no aggregate": {`{"eventId":1,"eventType":"T","timestamp":"2020-01-01T00:00:05Z"}`, "aggregateId and eventType are required"},
		"a hole":       {`{"aggregateId":"a","eventId":2,"eventType":"T","timestamp":"2020-01-01T00:00:05Z"}`, "number an aggregate's events 1, 2, 3"},
		"empty":        {``, "it has no events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := eventlog.Open(write(t, test.line))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("says %v, not %q", err, test.says)
			}
		})
	}
}
