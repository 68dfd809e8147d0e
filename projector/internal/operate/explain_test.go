package operate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// writeFile writes a file of the test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	folder := t.TempDir()
	writeFiles(t, folder, map[string]string{name: text})
	return filepath.Join(folder, name)
}

// runLine runs a command line with only these variables. It returns the output and the
// error.
func runLine(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	e, err := Parse(args, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, &out, &problems, nil)
	if err == nil {
		e.Logger = zerolog.Nop()
		err = e.Run(t.Context())
	}
	return out.String(), problems.String(), err
}

const explainedProjections = `
projections:
  - name: orders
    collection: orders
    on:
      Placed:
        set: {customer: payload.customer}
      Added:
        when: payload.quantity > 0
        inc: {items: payload.quantity}
`

// orderEvent returns one line of a file of events.
func orderEvent(id string, eventID int, eventType, payload string) string {
	return fmt.Sprintf(`{"_id":{"$oid":"665f1f77bcf86cd799439011"},"aggregateId":%q,"eventId":%d,"eventType":%q,"payload":%s}`+"\n", id, eventID, eventType, payload)
}

// TestExplainPrintsAFile compares the printed text.
func TestExplainPrintsAFile(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PENSTOCK_PROJECTIONS": writeFile(t, "orders.yaml", explainedProjections)}
	events := writeFile(t, "events.ndjson", orderEvent("o-1", 1, "Placed", `{"customer":"Ada\u001b[2J\u0085"}`)+
		orderEvent("o-2", 1, "Placed", `{"customer":"Bob"}`)+"\n"+
		orderEvent("o-1", 2, "Added", `{"quantity":2}`)+orderEvent("o-1", 3, "Added", `{"quantity":0}`)+
		orderEvent("o-1", 4, "Shipped", `{}`)+orderEvent("o-1", 5, "Added", `{"quantity":"x"}`)+strings.TrimSpace(orderEvent("o-1", 6, "Added", `{"quantity":1}`)))
	stdout, _, err := runLine(t, env, "explain", "--aggregate=o-1", "--from="+events, "--last=5")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(stdout, "\n")
	const want = `earlier events, folded and not shown: 1 (see --last)

event 2  Added  applied
  when: payload.quantity > 0  =>  true
      payload.quantity = 2
  inc items: payload.quantity  =>  2
  items: absent -> 2

event 3  Added  left out: the condition is false
  when: payload.quantity > 0  =>  false
      payload.quantity = 0

event 4  Shipped  left out: the projection has no handler for the event type

event 5  Added  parks the aggregate
  when: payload.quantity > 0  =>  fails: > does not take string and int: convert the text with int(…), double(…) or timestamp(…)
      payload.quantity = "x"

projectors park the aggregate at event 5 (Added), reason expression: when: payload.quantity > 0: > does not take string and int: convert the text with int(…), double(…) or timestamp(…)
events that wait behind it in the event store: 1; after a correction, "projector parked retry" applies them

the document after event 4:
  {
    "customer": "Ada\u001b[2J ",
    "items": 2
  }
`
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func zipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

// TestExplainSaysWhereHistoriesEnd covers aggregates that are parked although no event
// fails, and the bounds of the printed events.
func TestExplainSaysWhereHistoriesEnd(t *testing.T) {
	t.Parallel()
	placed := func(id int) string { return orderEvent("o-1", id, "Placed", `{"customer":"Ada"}`) }
	broken := strings.Replace(placed(2), `"Placed"`, `7`, 1)
	for _, test := range []struct {
		name, events string
		args         []string
		outcomes     string
		reason       projection.Reason
		parkedAt     int64
		last         int64
		text         string
	}{
		{name: "hole", events: placed(1) + placed(3) + placed(4), outcomes: "applied, waits, waits", reason: projection.ReasonMissing, parkedAt: 2, last: 1, text: "the event store does not have the event"},
		{name: "no beginning", events: placed(3) + placed(4), outcomes: "waits, waits", reason: projection.ReasonHistory, parkedAt: 1, text: "the first event that the event store has of the aggregate is 3"},
		{name: "a snapshot", events: strings.Replace(placed(3), "Placed", "Snapshotted", 1) + placed(4), outcomes: "left out, applied", last: 4},
		{name: "a snapshot after a hole", events: placed(1) + strings.Replace(placed(3), "Placed", "Snapshotted", 1), outcomes: "applied, waits", reason: projection.ReasonMissing, parkedAt: 2, last: 1, text: "the event store does not have the event"},
		{name: "no order", events: placed(2) + placed(1), outcomes: "applied, applied", last: 2},
		{name: "no order, and a hole", events: placed(4) + placed(3) + placed(1), outcomes: "applied, waits, waits", reason: projection.ReasonMissing, parkedAt: 2, last: 1, text: "the event store does not have the event"},
		{name: "no order, until", events: placed(3) + placed(2) + placed(1), args: []string{"--until=2"}, outcomes: "applied, applied", last: 2},
		{name: "broken contract", events: placed(1) + broken + placed(3), outcomes: "applied, unreadable, waits", reason: projection.ReasonMissing, parkedAt: 2, last: 1, text: "field eventType"},
		{name: "broken contract at the end", events: placed(1) + broken, outcomes: "applied, unreadable", last: 1},
		{name: "an event twice", events: placed(1) + placed(1), outcomes: "applied, duplicate", last: 1},
		{name: "until", events: placed(1) + placed(2) + placed(3), args: []string{"--until=2"}, outcomes: "applied, applied", last: 2},
		{name: "byte order mark", events: "\uFEFF" + placed(1) + placed(2), outcomes: "applied, applied", last: 2},
		{name: "gzip", events: zipped(placed(1) + placed(2)), outcomes: "applied, applied", last: 2},
		{name: "last", events: placed(1) + placed(2) + placed(3) + placed(4), args: []string{"--last=1"}, outcomes: "applied", last: 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"PENSTOCK_PROJECTIONS": writeFile(t, "orders.yaml", "snapshots: [Snapshotted]\n"+explainedProjections)}
			stdout, stderr, err := runLine(t, env, append([]string{"explain", "--aggregate=o-1", "--output=json", "--from=" + writeFile(t, "events.ndjson", test.events)}, test.args...)...)
			var results []explanation
			if err != nil || json.Unmarshal([]byte(stdout), &results) != nil || len(results) != 1 {
				t.Fatalf("%v\n%s%s", err, stdout, stderr)
			}
			var outcomes []string
			for _, s := range results[0].Steps {
				outcomes = append(outcomes, string(s.Outcome))
			}
			if got := strings.Join(outcomes, ", "); got != test.outcomes || results[0].LastEventID != test.last {
				t.Errorf("the outcomes are %s up to event %d, want %s up to %d", got, results[0].LastEventID, test.outcomes, test.last)
			}
			p := results[0].Parked
			if p == nil {
				p = &explainedParking{}
			}
			if p.Reason != test.reason || p.EventID != test.parkedAt || !strings.Contains(p.Error, test.text) {
				t.Errorf("parked: %+v", p)
			}
		})
	}
}

// BenchmarkExplainTheLastEvents explains the last 10 events of a document that grows with each event. The
// time must be near that of the fold alone.
func BenchmarkExplainTheLastEvents(b *testing.B) {
	const yaml = "projections: [{name: p, collection: p, on: {A: {push: {list: \"{'sku': payload.sku, 'amount': eventId}\"}}}}]"
	p := foldable{Projection: projectiontest.All(b, yaml)[0]}
	kind, payload, err := bson.MarshalValue(bson.D{{Key: "sku", Value: "abc"}})
	if err != nil {
		b.Fatal(err)
	}
	events := make([]*event.Event, 2000)
	for i := range events {
		events[i] = &event.Event{Keys: event.Keys{AggregateID: "a", EventID: int64(i + 1), EventType: "A"}, Payload: bson.RawValue{Type: kind, Value: payload}}
	}
	b.Run("fold", func(b *testing.B) {
		for b.Loop() {
			r := newReplay(p.Projection, 1)
			for _, ev := range events {
				r.add(ev, nil)
			}
		}
	})
	b.Run("explain", func(b *testing.B) {
		for b.Loop() {
			x := newExplainer(&explainCommand{Aggregate: "a", Last: 10}, p, 1)
			for _, ev := range events {
				x.add(ev, nil)
			}
			if r, err := x.result(false); err != nil || r.NotShown != int64(len(events)-10) || len(r.Steps) != 10 || r.Steps[9].EventID != int64(len(events)) {
				b.Fatalf("%+v, %v", r, err)
			}
		}
	})
}

// TestExplainRefusesWhatItCannotExplain checks that each error says what to do.
func TestExplainRefusesWhatItCannotExplain(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PENSTOCK_PROJECTIONS": writeFile(t, "orders.yaml", explainedProjections)}
	events := "--from=" + writeFile(t, "events.ndjson", orderEvent("o-1", 1, "Placed", `{"customer":"Ada"}`))
	array := "--from=" + writeFile(t, "events.json", "[\n"+orderEvent("o-1", 1, "Placed", `{}`)+"]")
	wrong := map[string]string{"PENSTOCK_PROJECTIONS": writeFile(t, "wrong.yaml", "projections:\n  - name: x\n    colection: x\n")}
	for _, test := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"wrong projections", wrong, []string{events, "--aggregate=o-1"}, cli.ErrUsage.Error()},
		{"no projections file", map[string]string{"PENSTOCK_PROJECTIONS": "/nowhere.yaml"}, []string{events, "--aggregate=o-1"}, "/nowhere.yaml: no such file or directory\n" + cli.ErrUsage.Error()},
		{"no aggregate", env, []string{events}, "--aggregate is not set: name the aggregate to explain"},
		{"too many", env, []string{events, "--aggregate=o-1", "--last=10001"}, "--last is 10001: use 1 to 10000"},
		{"unknown aggregate", env, []string{events, "--aggregate=o-9"}, `events.ndjson has no event of aggregate "o-9": check the id`},
		{"unknown projection", env, []string{events, "--aggregate=o-1", "--projection=users"}, `there is no projection "users": there are orders`},
		{"no file", env, []string{"--from=/nowhere.ndjson", "--aggregate=o-1"}, "open the events: open /nowhere.ndjson"},
		{"no NDJSON", env, []string{array, "--aggregate=o-1"}, "events.json:1: "},
		{"no projections and no store", nil, []string{events, "--aggregate=o-1"}, "set PENSTOCK_PROJECTIONS to the file of the projections, or give the store of the catalog: MONGODB_URI is not set"},
		{"no store", env, []string{"--aggregate=o-1"}, "MONGODB_URI is not set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := runLine(t, test.env, append([]string{"explain"}, test.args...)...)
			if err == nil || !strings.Contains(stderr+err.Error(), test.want) || stdout != "" {
				t.Errorf("the error is %v\n%s%s", err, stdout, stderr)
			}
		})
	}
}
