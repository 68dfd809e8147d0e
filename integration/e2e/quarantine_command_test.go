package e2e_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// quarantined is a record as `publisher quarantine list` prints it.
type quarantined struct {
	Document, Reason, Field, AggregateID, Event string
	EventID                                     int64
}

// TestCorrectedEventsLeaveTheQuarantine checks that a broken event can be corrected in
// place and published, and that the read models then converge. The unique index allows no
// corrected event beside it. A record can also be discarded.
func TestCorrectedEventsLeaveTheQuarantine(t *testing.T) { scene(t, correctedEventsLeaveTheQuarantine) }

func correctedEventsLeaveTheQuarantine(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	broken := func(aggregate string) bson.D {
		return bson.D{{Key: "_id", Value: "broken-" + aggregate}, {Key: "aggregateId", Value: aggregate}, {Key: "aggregateType", Value: "Counter"}, {Key: "eventId", Value: int64(2)}, {Key: "timestamp", Value: time.Now()}, {Key: "payload", Value: one}}
	}
	for _, aggregate := range []string{"a", "b", "c"} {
		s.insert(counted(aggregate, 1, one))
		if _, err := s.events.InsertOne(t.Context(), broken(aggregate)); err != nil {
			t.Fatal(err)
		}
		s.insert(counted(aggregate, 3, one))
	}
	list := func(args ...string) (found []quarantined) {
		s.publisherJSON(0, &found, append([]string{"quarantine", "list"}, args...)...)
		return found
	}
	s.await("three events in the quarantine", func() bool { return len(list()) == 3 })
	s.await("what follows them published", func() bool { return s.published() == 6 })
	if found := list("--aggregate=a"); len(found) != 1 || found[0].Document != "broken-a" || found[0].Reason != "missing_event_type" || found[0].EventID != 2 {
		t.Errorf("listed %+v", found)
	}
	if n := len(list("--limit=2")); n != 2 {
		t.Errorf("%d listed, want 2", n)
	}
	if n := len(list("--reason=refused")) + len(list("--older-than=1h")) + len(list("--document=broken-z")); n != 0 {
		t.Errorf("%d listed by flags that match nothing", n)
	}
	// Events that still break the contract are not published.
	s.steps(
		step{"publisher quarantine show broken-b", 0, `missing_event_type … "aggregateId":"b"`},
		step{"publisher quarantine show broken-z", 1, ""},
		step{"publisher status", 0, "3"},
		step{"publisher republish --quarantine --yes", 1, "0 of 3 events sent\n … eventType"},
		step{"publisher republish --quarantine --reason=missing_event_type --limit=2 --yes", 1, "0 of 2 events sent\n"},
		step{"publisher republish --quarantine --document=broken-c --yes", 1, "0 of 1 event sent\n"},
		step{"publisher republish --quarantine --older-than=1h --yes", 1, ""},
	)
	// The index must refuse a corrected event beside the broken one.
	if _, err := s.events.InsertOne(t.Context(), counted("a", 2, one)); err == nil {
		t.Error("the unique index took a second event a/2")
	}
	for _, aggregate := range []string{"a", "b"} {
		if _, err := s.events.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "broken-" + aggregate}}, bson.D{{Key: "$set", Value: bson.D{{Key: "eventType", Value: "Counted"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	s.steps(
		step{"publisher republish --quarantine", 1, "send 2 events (of the quarantine: broken-a, missing_event_type; broken-b, missing_event_type; 1 more stay there) … repeat it with --yes"},
		step{"publisher republish --quarantine --aggregate=a --rate=1000 --yes --why=corrected", 0, "1 of 1 event sent\n"},
		step{"publisher republish --quarantine --yes --why=corrected", 1, "1 of 2 events sent\n"},
	)
	s.await("two more events on the topic", func() bool { return s.published() == 8 })
	s.awaitCounts("a: n=3 after event 3, b: n=3 after event 3, c: n=1 after event 1", "a", "b", "c")
	s.publisherCommand(0, "quarantine", "discard", "--aggregate=c", "--yes", "--why=test data")
	if found := list(); len(found) != 0 {
		t.Errorf("%+v are left in the quarantine", found)
	}
	s.publisherCommand(1, "quarantine", "discard", "--yes", "--why=again")
	var entries []map[string]any
	if s.publisherJSON(0, &entries, "audit"); len(entries) != 3 || entries[0]["command"] != "quarantine discard" || entries[1]["why"] != "corrected" {
		t.Errorf("the audit has %v", entries)
	}
	s.steps(step{"publisher audit --command=quarantine", 0, "quarantine discard … test data"})
}

// TestStoredEventsAreSentAgain checks that stored events can be sent again, by aggregate
// and by time, that the command counts them first, and that the read models stay right.
func TestStoredEventsAreSentAgain(t *testing.T) { scene(t, storedEventsAreSentAgain) }

func storedEventsAreSentAgain(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{DuplicateDetectionWindow: -1})
	s.start(1, 1)
	began := time.Now()
	at := func(aggregate string, id int64, after time.Duration) {
		e := counted(aggregate, id, one)
		e.Timestamp = began.Add(after).UTC().Truncate(time.Millisecond)
		s.insert(e)
	}
	for id := int64(1); id <= 5; id++ {
		at("a", id, time.Duration(id)*time.Hour)
		at("b", id, time.Duration(id)*time.Hour)
	}
	s.awaitPublishedEvents(10)
	s.steps(
		step{"publisher republish --yes", 2, ""},
		step{"publisher republish --aggregate=z --yes", 1, ""},
		step{"publisher republish --aggregate=a", 1, "send 5 events (aggregate \"a\"; 0 that break the contract are left out)"},
		step{"publisher republish --aggregate=a --yes", 0, "5 of 5 events sent\n"},
	)
	s.await("15 messages", func() bool { return s.published() == 15 })
	moment := func(after time.Duration) string { return began.Add(after).UTC().Format(time.RFC3339) }
	s.steps(
		step{"publisher republish --from=" + moment(90*time.Minute) + " --to=" + moment(210*time.Minute) + " --rate=1000 --yes", 0, "4 of 4 events sent\n"},
	)
	s.await("19 messages", func() bool { return s.published() == 19 })
	s.awaitCounts("a: n=5 after event 5, b: n=5 after event 5", "a", "b")
}
