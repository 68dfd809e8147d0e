package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// TestPreflightNamesWhatIsMissing checks that both programs check the servers before a
// start, change nothing, and print a remedy for each problem. An init container delays a
// start only for problems that do not pass by themselves.
func TestPreflightNamesWhatIsMissing(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.insert(counted("a", 1, one))
	type line struct{ Check, State, Detail, Remedy string }
	run := func(program string, code int, args ...string) map[string]line {
		t.Helper()
		var out harness.Output
		var err error
		if program == "publisher" {
			out, err = s.Publisher(t.Context(), append([]string{"check", "--output=json"}, args...)...)
		} else {
			out, err = s.Projector(t.Context(), append([]string{"check", "--connect", "--output=json"}, args...)...)
		}
		if err != nil {
			t.Fatal(err)
		}
		var lines []line
		if err := json.Unmarshal(out.Stdout, &lines); err != nil || out.Status != code {
			t.Fatalf("%s check %v: status %d, want %d, %v\n%s%s", program, args, out.Status, code, err, out.Stdout, out.Stderr)
		}
		found := make(map[string]line, len(lines))
		for _, l := range lines {
			if l.State != "ok" && l.Remedy == "" {
				t.Errorf("%s: %+v has no remedy", program, l)
			}
			if before, twice := found[l.Check]; !twice || before.State == "ok" {
				found[l.Check] = l
			}
		}
		return found
	}
	for program, want := range map[string][]string{
		"publisher": {"event store", "event store, clock", "event store, events", "event store, index", "event store, change stream", "state, rights", "checkpoint", "lock", "topic"},
		"projector": {"configuration", "read models", "read models, rights", "read models, collections", "state, rights", "owners", "event store, index", "event store, events", "subscription"},
	} {
		found := run(program, 0)
		for _, check := range want {
			if found[check].State != "ok" {
				t.Errorf("%s: %s is %+v", program, check, found[check])
			}
		}
	}
	// The oplog of a new server is short, but it has every position until it drops entries.
	if found := run("publisher", 0)["oplog"]; found.State != "ok" || !strings.Contains(found.Detail, "has dropped nothing") {
		t.Errorf("the oplog of a new server: %+v", found)
	}
	s.standIns("lose the oplog").Mongo.TruncateOplog(1)
	if found := run("publisher", 0)["oplog"]; found.State != "warning" || !strings.Contains(found.Detail, "it reaches back ") {
		t.Errorf("the oplog: %+v", found)
	}
	names, err := s.state.ListCollectionNames(t.Context(), bson.D{})
	if err != nil || len(names) != 0 {
		t.Errorf("the checks have made the collections %v, %v", names, err)
	}

	// An init container without secrets checks everything but the connections.
	if out, err := s.Projector(t.Context(), "check", "--without-connections"); err != nil || out.Status != 0 {
		t.Errorf("projector check --without-connections: %v, status %d\n%s%s", err, out.Status, out.Stdout, out.Stderr)
	}
	const nowhere = "--mongodb-uri=mongodb://127.0.0.1:1/?replicaSet=rs0&serverSelectionTimeoutMS=200"
	for program, check := range map[string]string{"publisher": "event store", "projector": "read models"} {
		if found := run(program, 1, nowhere)[check]; found.State != "failed" || !strings.Contains(found.Detail, "does not answer") {
			t.Errorf("%s without MongoDB: %+v", program, found)
		}
		run(program, 0, nowhere, "--init")
	}
	if found := run("publisher", 1, "--servicebus-topic=nosuch", "--init")["topic"]; found.State != "failed" || !strings.Contains(found.Detail, "does not exist") {
		t.Errorf("a topic that does not exist: %+v", found)
	}
	if found := run("projector", 1, "--servicebus-subscription=nosuch", "--init")["subscription"]; found.State != "failed" {
		t.Errorf("a subscription that does not exist: %+v", found)
	}

	keys := bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}
	if err := s.events.Indexes().DropOne(t.Context(), "aggregateId_1_eventId_1"); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"publisher", "projector"} {
		if found := run(program, 1, "--init")["event store, index"]; found.State != "failed" || !strings.Contains(found.Detail+found.Remedy, "createIndex") {
			t.Errorf("%s without the index: %+v", program, found)
		}
	}
	if _, err := s.events.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys}); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"publisher", "projector"} {
		if found := run(program, 0)["event store, index"]; found.State != "warning" || !strings.Contains(found.Remedy, "prepareUnique: true") {
			t.Errorf("%s with an index that is not unique: %+v", program, found)
		}
	}
	// Make most events break the contract.
	for n := range 3 {
		if _, err := s.events.InsertOne(t.Context(), bson.D{{Key: "aggregateId", Value: "b"}, {Key: "eventId", Value: n + 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if found := run("publisher", 1, "--field-event-type=kind")["event store, events"]; found.State != "failed" {
		t.Errorf("with a wrong field name: %+v", found)
	}
	if found := run("projector", 1, "--field-event-type=kind")["event store, events"]; !strings.Contains(found.Detail, "missing_event_type: field kind") {
		t.Errorf("the reason is not named: %+v", found)
	}
	if out, _ := s.publisherCommand(1, "check", "--field-event-type=kind"); !strings.Contains(out, "failed   event store, events: ") || !strings.Contains(out, "\n           -> ") {
		t.Errorf("for people:\n%s", out)
	}
}
