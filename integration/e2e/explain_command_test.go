package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// explained is the output of the command explain for a projection.
type explained struct {
	Projection, Origin      string
	AggregateID             string
	Generation, LastEventID int64
	Steps                   []struct {
		EventID            int64
		Outcome, Why       string
		Evaluations        []struct{ Word, Result string }
		Changes            []struct{ Path, Before, After string }
		Created, Deleted   bool
		Error              string
		EventType, Comment string
	}
	Parked *struct {
		EventID       int64
		Reason, Error string
	}
	Document map[string]any
}

// differing is the output of the command diff.
type differing struct {
	Projections []struct {
		Projection, Kind, Rollout    string
		Aggregates, Differ, Parks    int64
		Fields                       []struct{ Path string }
		Parking                      []struct{ Reason, AggregateID string }
		Appear, Vanish, Freed, Other int64
	}
	Aggregates, Events int64
	Rollout            struct{ Builds, StoreEvents, Reads, Pods int64 }
}

// export writes the events of the store to a file, as mongoexport does, and returns its
// path.
func (s *scenario) export() string {
	s.t.Helper()
	cursor, err := s.events.Find(s.t.Context(), bson.D{})
	var documents []bson.Raw
	if err == nil {
		err = cursor.All(s.t.Context(), &documents)
	}
	var lines []byte
	for _, document := range documents {
		var line []byte
		if err == nil {
			line, err = bson.MarshalExtJSON(document, false, false)
			lines = append(append(lines, line...), '\n')
		}
	}
	path := filepath.Join(s.t.TempDir(), "events.ndjson")
	if err == nil {
		err = os.WriteFile(path, lines, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// TestExplainAndDiffAgreeWithTheService checks that the commands agree with the projector
// about real aggregates, by the definition of the catalog, and that neither writes
// anything.
func TestExplainAndDiffAgreeWithTheService(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	n := func(n int64) bson.D { return bson.D{{Key: "n", Value: n}} }
	noted := counted("right", 3, n(1))
	noted.EventType = "Noted"
	s.insert(counted("right", 1, n(2)), counted("right", 2, n(3)), noted, counted("right", 4, n(0)),
		counted("wrong", 1, n(1)), counted("wrong", 2, bson.D{}), counted("wrong", 3, n(1)))
	s.await("the read models", func() bool {
		return s.parked() == 1 && s.count("right") == "n=5 after event 4" && s.count("wrong") == "n=1 after event 1"
	})

	explain := func(args ...string) explained {
		t.Helper()
		stdout, stderr := s.projectorCommand(0, append([]string{"explain", "--output=json"}, args...)...)
		var results []explained
		if err := json.Unmarshal([]byte(stdout), &results); err != nil || len(results) != 1 {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		return results[0]
	}
	right := explain("--aggregate=right")
	if right.Generation != 1 || right.Origin != "the catalog, live" || right.LastEventID != 4 || right.Document["n"] != 5.0 || right.Parked != nil || len(right.Steps) != 4 {
		t.Errorf("explained %+v", right)
	}
	if step := right.Steps[1]; len(step.Evaluations) != 1 || step.Evaluations[0].Word != "inc n" || step.Evaluations[0].Result != "3" || len(step.Changes) != 1 || step.Changes[0].Before != "2" || step.Changes[0].After != "5" {
		t.Errorf("the second event: %+v", step)
	}
	if step := right.Steps[2]; step.Outcome != "left out" || step.Why != "the projection has no handler for the event type" {
		t.Errorf("the third event: %+v", step)
	}
	wrong := explain("--aggregate=wrong", "--projection=counts")
	listed := s.projectorList("parked", "list")
	if len(listed) != 1 || wrong.Parked == nil || listed[0]["eventId"] != float64(wrong.Parked.EventID) || listed[0]["reason"] != wrong.Parked.Reason || listed[0]["error"] != wrong.Parked.Error {
		t.Errorf("explained %+v, parked is %v", wrong.Parked, listed)
	}
	if first := explain("--aggregate=right", "--first=2"); len(first.Steps) != 2 || first.LastEventID != 2 || first.Document["n"] != 5.0 {
		t.Errorf("the first two events: %+v", first)
	}
	if last := explain("--aggregate=right", "--last=1"); len(last.Steps) != 1 || last.Steps[0].EventID != 4 || last.LastEventID != 4 {
		t.Errorf("the last event: %+v", last)
	}
	if stdout, _ := s.projectorCommand(0, "explain", "--aggregate=wrong", "--until=1"); !strings.Contains(stdout, "the document after event 1; later events were not read:") {
		t.Errorf("the first event alone:\n%s", stdout)
	}
	if _, stderr := s.projectorCommand(1, "explain", "--aggregate=nobody"); !strings.Contains(stderr, `the event store has no event of aggregate "nobody"`) {
		t.Errorf("an unknown aggregate: %s", stderr)
	}

	diff := func(code int, args ...string) differing {
		t.Helper()
		stdout, stderr := s.projectorCommand(code, append([]string{"diff", "--output=json"}, args...)...)
		var d differing
		if err := json.Unmarshal([]byte(stdout), &d); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		return d
	}
	if d := diff(0, s.projectionsFile(countsProjection)); len(d.Projections) != 1 || d.Projections[0].Kind != "unchanged" || d.Rollout.Builds != 0 {
		t.Errorf("the same definition: %+v", d)
	}
	changed := strings.Replace(countsProjection, "Counted: {inc: {n: payload.n}}", "Counted: {inc: {n: payload.n * 10 / payload.n}}", 1)
	d := diff(1, s.projectionsFile(changed))
	if d.Aggregates != 2 || d.Events != 7 || d.Rollout.Builds != 1 || d.Rollout.StoreEvents != 7 || d.Rollout.Reads != 14 || d.Rollout.Pods != 1 {
		t.Errorf("the sample: %+v", d)
	}
	if p := d.Projections[0]; p.Kind != "changed" || p.Differ != 2 || p.Parks != 1 || len(p.Parking) != 1 || p.Parking[0].AggregateID != "right" || p.Rollout != "rebuild: a new generation is built beside the live one" {
		t.Errorf("the changed definition: %+v", p)
	}
	// The same events in a file give the same answers without any server.
	exported := s.export()
	offline := func(code int, into any, args ...string) {
		t.Helper()
		got, stdout, stderr := command(t, suite.services.Projector, []string{"PENSTOCK_PROJECTIONS=" + s.projectionsFile(countsProjection)}, append(args, "--from="+exported, "--output=json")...)
		if err := json.Unmarshal([]byte(stdout), into); err != nil || got != code {
			t.Fatalf("projector %s: status %d, %v\n%s%s", strings.Join(args, " "), got, err, stdout, stderr)
		}
	}
	for _, online := range []explained{right, wrong} {
		var results []explained
		offline(0, &results, "explain", "--aggregate="+online.AggregateID)
		if len(results) != 1 || !reflect.DeepEqual(results[0].Steps, online.Steps) || !reflect.DeepEqual(results[0].Parked, online.Parked) || !reflect.DeepEqual(results[0].Document, online.Document) {
			t.Errorf("explained from a file %+v, from the store %+v", results, online)
		}
	}
	var filed differing
	offline(1, &filed, "diff", s.projectionsFile(countsProjection), s.projectionsFile(changed))
	if p := d.Projections[0]; len(filed.Projections) != 1 || filed.Aggregates != d.Aggregates || filed.Events != d.Events || filed.Projections[0].Differ != p.Differ || filed.Projections[0].Parks != p.Parks {
		t.Errorf("the difference of a file's aggregates %+v, of the store's %+v", filed, d)
	}
	if d := diff(1, s.projectionsFile(countsProjection), s.projectionsFile(changed), "--sample=1"); d.Aggregates != 1 || d.Projections[0].Aggregates != 1 {
		t.Errorf("two files: %+v", d)
	}
	if entry := s.projectorList("projections", "list"); len(entry) != 1 || entry[0]["building"] != nil {
		t.Errorf("after all of this the catalog has %v", entry)
	}
	if got := s.count("right"); got != "n=5 after event 4" {
		t.Errorf("after all of this the read model is %s", got)
	}
}
