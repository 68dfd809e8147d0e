package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/eventlog"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// readModelOf is one version of a projection of the incidents: the handler's expressions
// and an independent fold.
type readModelOf struct {
	name, collection string
	// handler is the body of the handler of each event type.
	handler string
	fold    func(events []workload.Event) bson.M
	// field is in every document of this version, and in none of the version before.
	field string
}

// incidentTypes are the event types of the incidents.
var incidentTypes = []string{"Accepted", "Completed", "Queued", "Unmatched"}

// projectionsOf returns the text of the projections file.
func projectionsOf(models ...readModelOf) []byte {
	var file strings.Builder
	file.WriteString("projections:\n")
	for _, m := range models {
		fmt.Fprintf(&file, "  - name: %s\n    collection: %s\n    on:\n", m.name, m.collection)
		for _, eventType := range incidentTypes {
			fmt.Fprintf(&file, "      %s: {%s}\n", eventType, m.handler)
		}
	}
	return []byte(file.String())
}

// text returns a field of an event's payload.
func text(ev workload.Event, field string) string {
	for _, e := range ev.Payload {
		if e.Key == field {
			return e.Value.(string)
		}
	}
	return ""
}

// listed returns a list with a value of each event.
func listed(events []workload.Event, value func(workload.Event) any) bson.A {
	list := make(bson.A, len(events))
	for i, ev := range events {
		list[i] = value(ev)
	}
	return list
}

func ofField(field string) func(workload.Event) any {
	return func(ev workload.Event) any { return text(ev, field) }
}

// Projections of the incidents. All of them count and append, which shows each event that
// is lost, applied twice or out of order.
var (
	casesBefore = readModelOf{
		name: "cases", collection: "caseReadModels",
		handler: `inc: {events: "1"}, push: {history: "{'event': eventId, 'type': eventType}"}`,
		fold: func(events []workload.Event) bson.M {
			return bson.M{"events": int64(len(events)), "history": listed(events, func(ev workload.Event) any {
				return bson.M{"event": ev.EventID, "type": ev.EventType}
			})}
		},
	}
	// casesAfter uses a field of the events that casesBefore ignores.
	casesAfter = readModelOf{
		name: "cases", collection: "caseReadModels", field: "groups",
		handler: `inc: {events: "1"}, push: {history: "{'event': eventId, 'type': eventType}", groups: payload.org_group}`,
		fold: func(events []workload.Event) bson.M {
			document := casesBefore.fold(events)
			document["groups"] = listed(events, ofField("org_group"))
			return document
		},
	}
	// impactsBefore fails for the impact Major, which few incidents have.
	impactsBefore = readModelOf{
		name: "impacts", collection: "impactReadModels",
		handler: `inc: {weight: "{'Low': 1, 'Medium': 2, 'High': 4}[payload.impact]"}, push: {impacts: payload.impact}`,
	}
	impactsAfter = readModelOf{
		name: "impacts", collection: "impactReadModels", field: "weighed",
		handler: `inc: {weight: "{'Low': 1, 'Medium': 2, 'High': 4, 'Major': 8}[payload.impact]", weighed: "1"}, push: {impacts: payload.impact}`,
		fold: func(events []workload.Event) bson.M {
			weight := int64(0)
			for _, ev := range events {
				weight += map[string]int64{"Low": 1, "Medium": 2, "High": 4, "Major": 8}[text(ev, "impact")]
			}
			return bson.M{"weight": weight, "weighed": int64(len(events)), "impacts": listed(events, ofField("impact"))}
		},
	}
	// places is added by the rollout.
	places = readModelOf{
		name: "places", collection: "placeReadModels", field: "steps",
		handler: `inc: {steps: "1"}, push: {countries: "payload['resource country']"}`,
		fold: func(events []workload.Event) bson.M {
			return bson.M{"steps": int64(len(events)), "countries": listed(events, ofField("resource country"))}
		},
	}
)

// follow reads a collection repeatedly. The returned function stops that and returns the
// result.
func (s *scenario) follow(m readModelOf) func() verify.Reads {
	reader := verify.NewReader(s.models.Collection(m.collection), m.field)
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(ctx) }()
	s.t.Cleanup(stop)
	return func() verify.Reads {
		s.t.Helper()
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("read %s: %v", m.collection, err)
		}
		reads := reader.Reads()
		s.t.Logf("%s: %+v", m.collection, reads)
		return reads
	}
}

// rollOut replaces the projectors one by one by projectors with other projections, like an
// upgrade.
func (s *scenario) rollOut(projections []byte, projectors int) {
	s.t.Helper()
	if err := s.SetProjections(projections); err != nil {
		s.t.Fatal(err)
	}
	for n := range projectors {
		for _, process := range s.Running() {
			if process.Name == fmt.Sprintf("projector-%d", n) {
				s.stopped(process)
			}
		}
		s.startProjector(n)
		s.ready()
	}
}

// catalogEntry is read from the database, because a command would take too long to poll.
type catalogEntry struct {
	Name     string `bson:"_id"`
	Building *struct {
		Generation int64  `bson:"generation"`
		State      string `bson:"state"`
		Reason     string `bson:"reason"`
	} `bson:"building"`
	Coordinator struct {
		Pod string `bson:"pod"`
	} `bson:"coordinator"`
}

// catalog reads the entries of all projections.
func (s *scenario) catalog() []catalogEntry {
	s.t.Helper()
	var entries []catalogEntry
	cursor, err := s.state.Collection("projections").Find(s.t.Context(), bson.D{})
	if err == nil {
		err = cursor.All(s.t.Context(), &entries)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

// awaitState waits until the build of a projection is in one of the states.
func (s *scenario) awaitState(projection string, states ...string) catalogEntry {
	s.t.Helper()
	var found catalogEntry
	s.await(fmt.Sprintf("%s is %s", projection, strings.Join(states, " or ")), func() bool {
		for _, e := range s.catalog() {
			if e.Name != projection || e.Building == nil {
				continue
			}
			if e.Building.State == "failed" {
				s.t.Fatalf("the rebuild of %s has failed: %s", projection, e.Building.Reason)
			}
			if slices.Contains(states, e.Building.State) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// awaitLive waits until each projection has a live generation with at least that number,
// and none that is being built.
func (s *scenario) awaitLive(generations map[string]int64) {
	s.t.Helper()
	var last []harness.ProjectionState
	deadline := time.Now().Add(settleTimeout())
	for {
		var err error
		if last, err = s.Projections(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		live := 0
		for _, p := range last {
			if p.State == "failed" {
				s.t.Fatalf("the rebuild of %s has failed: %s", p.Name, p.Building.Reason)
			}
			if want, asked := generations[p.Name]; asked && p.Building == nil && p.LiveGeneration() >= want {
				live++
			}
		}
		if live == len(generations) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not live within %s: %s", settleTimeout(), describe(last))
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-s.t.Context().Done():
			s.t.Fatal(s.t.Context().Err())
		}
	}
}

func describe(projections []harness.ProjectionState) string {
	var lines []string
	for _, p := range projections {
		line := fmt.Sprintf("%s is %s, live generation %d", p.Name, p.State, p.LiveGeneration())
		if p.Building != nil {
			line += fmt.Sprintf(", building %d: %s", p.Building.Generation, p.Building.Reason)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// killPod kills the projector that has registered under that name, and starts it again,
// like Kubernetes.
func (s *scenario) killPod(pod string) {
	s.t.Helper()
	for _, process := range s.Running() {
		log, err := os.ReadFile(process.Log)
		if err != nil {
			s.t.Fatal(err)
		}
		// A process logs its pod name once.
		if !strings.HasPrefix(process.Name, "projector-") || !strings.Contains(string(log), fmt.Sprintf("\"pod\":%q", pod)) {
			continue
		}
		s.killed(process)
		return
	}
	s.t.Fatalf("no running projector is %s", pod)
}

// killed kills a projector and starts it again, like Kubernetes.
func (s *scenario) killed(process *harness.Process) {
	s.t.Helper()
	process.Kill()
	s.t.Logf("killed %s", process.Name)
	again, err := s.StartProjector(process.Name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.started = append(s.started, again)
}

// complete returns n read models whose aggregates have no more events to come.
func (s *scenario) complete(m readModelOf, n int) []string {
	s.t.Helper()
	last := make(map[string]int64)
	for i := range s.workload.Events {
		last[s.workload.Events[i].AggregateID] = s.workload.Events[i].EventID
	}
	cursor, err := s.models.Collection(m.collection).Find(s.t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cursor.Close(s.t.Context())
	var found []string
	for len(found) < n && cursor.Next(s.t.Context()) {
		id := cursor.Current.Lookup("_id").StringValue()
		if shown, _ := cursor.Current.Lookup("lastEventId").AsInt64OK(); shown == last[id] {
			found = append(found, id)
		}
	}
	if len(found) < n {
		s.t.Fatalf("%d read models of %s are complete, not %d (%v)", len(found), m.name, n, cursor.Err())
	}
	return found
}

// verified runs projector verify and returns its findings, sorted.
func (s *scenario) verified(flags ...string) []string {
	s.t.Helper()
	results, err := s.Verify(s.t.Context(), flags...)
	if err != nil {
		s.t.Fatal(err)
	}
	found := []string{}
	for _, r := range results {
		if r.State != "done" {
			s.t.Fatalf("the verification of %s is %s: %s", r.Projection, r.State, r.Reason)
		}
		for _, f := range r.Findings {
			line := fmt.Sprintf("%s %s %s", f.Projection, f.AggregateID, f.Kind)
			if f.Repaired || f.RepairError != "" {
				line += fmt.Sprintf(" repaired=%t %s", f.Repaired, f.RepairError)
			}
			found = append(found, strings.TrimSpace(line))
		}
	}
	slices.Sort(found)
	return found
}

// incidents opens the public event log. Without the log it skips the test.
func incidents(t *testing.T) *workload.Workload {
	t.Helper()
	const file = "incidents.ndjson.gz"
	w, err := eventlog.Open(filepath.Join(dataDir, file))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not beside this checkout", filepath.Join("../shared/data", file))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestProjectionsChangeWhileEventsAreWritten adds a projection, changes another and
// corrects a third that has parked aggregates, all in one rollout. Meanwhile events come,
// and pods are killed at the worst moments. Readers see whole collections of one
// definition. In the end every read model equals the fold of its events. A verification
// finds a falsified document and a deleted one.
func TestProjectionsChangeWhileEventsAreWritten(t *testing.T) {
	scene(t, projectionsChangeWhileEventsAreWritten)
}

func projectionsChangeWhileEventsAreWritten(t *testing.T) {
	t.Helper()
	w := incidents(t)
	w.Projections = projectionsOf(casesBefore, impactsBefore)
	const projectors = 3
	s := newScenarioOn(t, w, harness.TopicOptions{}, "PENSTOCK_REFOLD_RATE=0")
	s.start(2, projectors)
	s.load(45 * time.Second)

	// The third projection parks aggregates, and a retry under the same definition does not
	// help.
	s.await("aggregates parked", func() bool { return s.parked("expression") > 0 })
	if stdout, _ := s.projectorCommand(1, "parked", "retry", "--projection=impacts", "--limit=1", "--yes"); !strings.HasPrefix(stdout, "0 resumed, 1 parked again") {
		t.Errorf("a retry under the same definition: %s", stdout)
	}
	s.awaitPublished(0.3)

	cases, impacts, added := s.follow(casesAfter), s.follow(impactsAfter), s.follow(places)
	least := s.aggregates()
	s.rollOut(projectionsOf(casesAfter, impactsAfter, places), projectors)

	// Two pods are killed during the build. The pod that promotes the new generation is
	// killed while the server holds its rename.
	s.awaitState("cases", "building", "catching up")
	for _, process := range s.projectors()[:2] {
		s.killed(process)
	}
	store, holds := s.backend.(renameHolder)
	if holds {
		store.HoldRenames(1, 2*time.Second)
	}
	promoting := s.awaitState("cases", "promoting")
	if holds {
		s.await("a rename is on its way", func() bool { return store.RenamesToHold() == 0 })
	}
	s.killPod(promoting.Coordinator.Pod)
	s.ready()
	s.awaitLive(map[string]int64{"cases": 2, "impacts": 2, "places": 1})

	for name, reads := range map[string]verify.Reads{"cases": cases(), "impacts": impacts(), "places": added()} {
		if !reads.OK() || reads.Changed == 0 {
			t.Errorf("a reader of %s has seen %+v", name, reads)
		}
		if name == "places" && reads.First < least {
			t.Errorf("places appeared with %d documents, of %d aggregates that had events", reads.First, least)
		}
	}

	// Change documents by hand. The reconciler has swept the new generations before, and
	// sweeps again in an hour; otherwise it could repair the deleted document first.
	s.await("the new generations reconciled", func() bool {
		jobs, err := s.Jobs(t.Context(), "--kind=reconcile", "--state=done")
		if err != nil {
			t.Fatal(err)
		}
		done := make(map[string]bool)
		for _, j := range jobs {
			done[fmt.Sprint(j.Projection, j.Generation)] = true
		}
		return done["cases2"] && done["impacts2"] && done["places1"]
	})
	falsified, deleted := s.complete(casesAfter, 1)[0], s.complete(places, 2)[1]
	if _, err := s.models.Collection(casesAfter.collection).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: falsified}},
		bson.D{{Key: "$inc", Value: bson.D{{Key: "events", Value: int64(1)}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.models.Collection(places.collection).DeleteOne(t.Context(), bson.D{{Key: "_id", Value: deleted}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"cases " + falsified + " different", "places " + deleted + " missing"}
	if found := s.verified(); !slices.Equal(found, want) {
		t.Errorf("a verification finds %q, not %q", found, want)
	}
	repaired := []string{want[0] + " repaired=true", want[1] + " repaired=true"}
	if found := s.verified("--repair", "--yes", "--why=changed by hand"); !slices.Equal(found, repaired) {
		t.Errorf("a repair says %q, not %q", found, repaired)
	}

	s.finishLoad()
	for _, m := range []readModelOf{casesAfter, impactsAfter, places} {
		w.Fold = func(events []workload.Event) (string, bson.M) { return m.collection, m.fold(events) }
		s.invariants()
	}
	s.await("nothing parked", func() bool { return s.parked("expression") == 0 })
	if found := s.verified(); len(found) > 0 {
		t.Errorf("in the end a verification finds %q", found)
	}
}

// projectors returns the running projectors.
func (s *scenario) projectors() []*harness.Process {
	return slices.DeleteFunc(s.Running(), func(p *harness.Process) bool { return !strings.HasPrefix(p.Name, "projector-") })
}

// aggregates counts the aggregates of the event store.
func (s *scenario) aggregates() int {
	s.t.Helper()
	var ids []any
	if err := s.events.Distinct(s.t.Context(), "aggregateId", bson.D{}).Decode(&ids); err != nil {
		s.t.Fatal(err)
	}
	return len(ids)
}
