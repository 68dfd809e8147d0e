package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// explained is the output of the command explain for a projection.
type explained struct {
	Projection, Origin      string
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

// TestExplainAndDiffAgreeWithTheService checks that the commands agree with the projector
// about real aggregates, by the definition of the catalog, and that neither writes
// anything.
func TestExplainAndDiffAgreeWithTheService(t *testing.T) {
	inParallel(t)
	s := newScenarioOn(t, &workload.Workload{Name: "counts", Projections: []byte(countsProjection), Collections: []string{"counts"}}, harness.TopicOptions{})
	s.start(1, 1)
	n := func(n int64) bson.D { return bson.D{{Key: "n", Value: n}} }
	noted := counted("right", 3, n(1))
	noted.EventType = "Noted"
	s.insert(counted("right", 1, n(2)), counted("right", 2, n(3)), noted, counted("right", 4, n(0)),
		counted("wrong", 1, n(1)), counted("wrong", 2, bson.D{}), counted("wrong", 3, n(1)))
	s.await("the read models", func() bool {
		parked, err := s.state.Collection("parked").CountDocuments(t.Context(), bson.D{})
		return err == nil && parked == 1 && s.count("right") == "n=5 after event 4" && s.count("wrong") == "n=1 after event 1"
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
	if stdout, _ := s.projectorCommand(0, "explain", "--aggregate=wrong", "--until=1"); !strings.Contains(stdout, "the document after event 1; later events were not read:") {
		t.Errorf("the first event alone:\n%s", stdout)
	}
	if _, stderr := s.projectorCommand(1, "explain", "--aggregate=nobody"); !strings.Contains(stderr, `the event store has no event of aggregate "nobody"`) {
		t.Errorf("an unknown aggregate: %s", stderr)
	}

	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "projections.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
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
	if d := diff(0, file(countsProjection)); len(d.Projections) != 1 || d.Projections[0].Kind != "unchanged" || d.Rollout.Builds != 0 {
		t.Errorf("the same definition: %+v", d)
	}
	changed := strings.Replace(countsProjection, "Counted: {inc: {n: payload.n}}", "Counted: {inc: {n: payload.n * 10 / payload.n}}", 1)
	d := diff(1, file(changed))
	if d.Aggregates != 2 || d.Events != 7 || d.Rollout.Builds != 1 || d.Rollout.StoreEvents != 7 || d.Rollout.Reads != 14 || d.Rollout.Pods != 1 {
		t.Errorf("the sample: %+v", d)
	}
	if p := d.Projections[0]; p.Kind != "changed" || p.Differ != 2 || p.Parks != 1 || len(p.Parking) != 1 || p.Parking[0].AggregateID != "right" || p.Rollout != "rebuild: generation 2 is built beside the live one" {
		t.Errorf("the changed definition: %+v", p)
	}
	if d := diff(1, file(countsProjection), file(changed), "--sample=1"); d.Aggregates != 1 || d.Projections[0].Aggregates != 1 {
		t.Errorf("two files: %+v", d)
	}
	if entry := s.projectorList("projections", "list"); len(entry) != 1 || entry[0]["building"] != nil {
		t.Errorf("after all of this the catalog has %v", entry)
	}
	if got := s.count("right"); got != "n=5 after event 4" {
		t.Errorf("after all of this the read model is %s", got)
	}
}
