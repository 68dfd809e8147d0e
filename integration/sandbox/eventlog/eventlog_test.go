package eventlog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/eventlog"
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
