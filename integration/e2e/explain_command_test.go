package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

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
// about real aggregates, by the definition of the catalog, that a file with the same events
// gives the same answers without any server, and that neither writes anything.
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
		return s.parked() == 1 && s.counts("right", "wrong") == "right: n=5 after event 4, wrong: n=1 after event 1"
	})
	listed := s.projectorList("parked", "list")
	if len(listed) != 1 {
		t.Fatalf("parked are %v", listed)
	}
	changed := s.projectionsFile(strings.Replace(countsProjection, "Counted: {inc: {n: payload.n}}", "Counted: {inc: {n: payload.n * 10 / payload.n}}", 1))
	s.steps(
		step{"projector explain --aggregate=right", 0, "the catalog, live … inc n … no handler for the event type … 5"},
		step{"projector explain --aggregate=wrong --projection=counts", 0, listed[0]["error"].(string)},
		step{"projector explain --aggregate=right --last=1", 0, "the document after event 4"},
		step{"projector explain --aggregate=wrong --until=1", 0, "the document after event 1; later events were not read:"},
		step{"projector explain --aggregate=right --at=2100-01-01T00:00:00Z --document", 0, "{\n  \"n\": 5\n}\n"},
		step{"projector explain --aggregate=right --at=2000-01-01 --document", 1, `aggregate "right" had no event at that time`},
		step{"projector explain --aggregate=nobody", 1, `the event store has no event of aggregate "nobody"`},
		step{"projector diff " + s.projectionsFile(countsProjection), 0, "unchanged"},
		step{"projector diff --sample=1 " + s.projectionsFile(countsProjection) + " " + changed, 1, ""},
	)

	exported := "--from=" + s.export()
	same := func(code int, args ...string) {
		t.Helper()
		args = append(args, "--output=json")
		online, _ := s.projectorCommand(code, args...)
		got, offline, stderr := command(t, suite.services.Projector, []string{"PENSTOCK_PROJECTIONS=" + s.projectionsFile(countsProjection)}, append(args, exported)...)
		parts := func(text string) (kept []any) {
			var all []map[string]any
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				t.Fatalf("%v\n%s%s", err, text, stderr)
			}
			for _, one := range all {
				kept = append(kept, one["steps"], one["parked"], one["document"])
			}
			return kept
		}
		want, err := json.Marshal(parts(online))
		if err != nil {
			t.Fatal(err)
		}
		have, err := json.Marshal(parts(offline))
		if err != nil || got != code || string(have) != string(want) {
			t.Errorf("projector %s: status %d, from a file\n%s\nfrom the store\n%s", strings.Join(args, " "), got, have, want)
		}
	}
	same(0, "explain", "--aggregate=right")
	same(0, "explain", "--aggregate=wrong")
	var sample struct {
		Projections []struct {
			Kind, Rollout string
			Differ, Parks int64
			Parking       []struct{ AggregateID string }
		}
		Aggregates, Events int64
	}
	const rebuild = "rebuild: a new generation is built beside the live one"
	check := func(stdout, rollout string) {
		t.Helper()
		if err := json.Unmarshal([]byte(stdout), &sample); err != nil || len(sample.Projections) != 1 {
			t.Fatalf("%v\n%s", err, stdout)
		}
		if p := sample.Projections[0]; sample.Aggregates != 2 || sample.Events != 7 || p.Kind != "changed" || p.Differ != 2 || p.Parks != 1 || p.Parking[0].AggregateID != "right" || rollout != "" && p.Rollout != rollout {
			t.Errorf("the changed definition: %+v", sample)
		}
	}
	online, _ := s.projectorCommand(1, "diff", changed, "--output=json")
	check(online, rebuild)
	_, offline, _ := command(t, suite.services.Projector, nil, "diff", s.projectionsFile(countsProjection), changed, exported, "--output=json")
	check(offline, "")
	if entry := s.projectorList("projections", "list"); len(entry) != 1 || entry[0]["building"] != nil || s.count("right") != "n=5 after event 4" {
		t.Errorf("after all of this the catalog has %v, and the read model is %s", entry, s.count("right"))
	}
}
