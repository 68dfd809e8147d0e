package e2e_test

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// Aggregates whose ids differ only in their type would share messages, a session and a read
// model. The events of the newer one go to the quarantine, and stay out of whatever reads
// the event store: a scan, a verification and a rebuild. Ids of several types that do not
// print alike are side by side.
func TestIDsThatPrintAlikeDoNotShareAReadModel(t *testing.T) {
	scene(t, iDsThatPrintAlikeDoNotShareAReadModel)
}

func iDsThatPrintAlikeDoNotShareAReadModel(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	oid := bson.NewObjectID()
	insert := func(aggregate any, n int64, ids ...int64) {
		t.Helper()
		for _, id := range ids {
			ev := bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "aggregateType", Value: "Counter"}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Counted"}, {Key: "timestamp", Value: time.Now()}, {Key: "payload", Value: bson.D{{Key: "n", Value: n}}}}
			if _, err := s.events.InsertOne(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	right := func(what string, last string) {
		t.Helper()
		s.await(what, func() bool {
			return s.count("42") == last && s.count(oid.Hex()) == "n=2 after event 2" && s.count("7") == "n=1 after event 1"
		})
	}
	inQuarantine := func(n int) {
		t.Helper()
		var found []quarantined
		s.await("the events of newer aggregates in the quarantine", func() bool {
			s.publisherJSON(0, &found, "quarantine", "list", "--reason=ambiguous_aggregate_id")
			return len(found) >= n
		})
		if len(found) != n {
			t.Errorf("the quarantine has %+v", found)
		}
	}

	// The publisher finds some of them with a scan, in which integers come first.
	insert("42", 1, 1, 2)
	insert(int32(42), 100, 1, 2, 3)
	insert(int64(7), 1, 1)
	s.start(1, 1)
	insert(oid, 1, 1)
	insert(oid.Hex(), 100, 1, 2)
	insert(oid, 1, 2)
	insert("42", 1, 3)
	right("one read model for each aggregate", "n=3 after event 3")
	inQuarantine(5)
	if stdout, _ := s.publisherCommand(1, "quarantine", "republish", "--yes", "--why=tested"); !strings.HasPrefix(stdout, "0 published, 5 stay") {
		t.Errorf("republish of newer aggregates: %s", stdout)
	}
	if stdout, _ := s.publisherCommand(0, "republish", "--aggregate=42", "--yes", "--why=tested", "--who=ada"); !strings.HasPrefix(stdout, "3 ") {
		t.Errorf("republish of an aggregate with a namesake: %s", stdout)
	}
	if n := s.published(); n != 6 {
		t.Errorf("%d events are on the topic, want 6", n)
	}
	s.awaitLive(map[string]int64{"counts": 1})
	if found, v := s.verify(0); len(found) > 0 || v.Counts["aggregates"] != 3 {
		t.Errorf("verified: %v, %+v", found, v)
	}

	s.stopped(s.projectors()[0])
	s.SetEnv("PENSTOCK_PROJECTIONS=" + s.projectionsFile(strings.Replace(countsProjection, "payload.n", "payload.n * 1", 1)))
	s.startProjector(0)
	s.awaitLive(map[string]int64{"counts": 2})
	right("the read models after a rebuild", "n=3 after event 3")
	inQuarantine(5)
}
