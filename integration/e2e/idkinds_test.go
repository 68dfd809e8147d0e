package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// All aggregates have ids of one type. Events with another type go to the quarantine, and stay
// out of whatever reads the event store: a scan, a verification and a rebuild.
func TestIDsOfAnotherTypeAreQuarantined(t *testing.T) { scene(t, idsOfAnotherTypeAreQuarantined) }

func idsOfAnotherTypeAreQuarantined(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	insert := func(aggregate any, n int64, ids ...int64) {
		t.Helper()
		for _, id := range ids {
			ev := bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "aggregateType", Value: "Counter"}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Counted"}, {Key: "timestamp", Value: time.Now()}, {Key: "payload", Value: bson.D{{Key: "n", Value: n}}}}
			if _, err := s.events.InsertOne(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	right := func(what string) {
		t.Helper()
		s.await(what, func() bool {
			return s.count("42") == "n=3 after event 3" && s.count("7") == "n=1 after event 1"
		})
	}
	inQuarantine := func(n int) {
		t.Helper()
		var found []quarantined
		s.await("the events of another type in the quarantine", func() bool {
			s.publisherJSON(0, &found, "quarantine", "list", "--reason=wrong_type")
			return len(found) >= n
		})
		if len(found) != n {
			t.Errorf("the quarantine has %+v", found)
		}
	}

	insert("42", 1, 1, 2) // the oldest, though integers come first in a scan
	insert(int32(42), 100, 1, 2, 3)
	s.start(1, 1)
	insert(bson.NewObjectID(), 100, 1, 2)
	insert("7", 1, 1)
	insert("42", 1, 3)
	right("one read model for each aggregate")
	inQuarantine(5)
	if stdout, _ := s.publisherCommand(1, "republish", "--quarantine", "--yes", "--why=tested"); !strings.HasPrefix(stdout, "0 of 5 events sent\n") {
		t.Errorf("republish of other types: %s", stdout)
	}
	if n := s.published(); n != 4 {
		t.Errorf("%d events are on the topic, want 4", n)
	}
	s.awaitLive(map[string]int64{"counts": 1})
	if found, v := s.verify(0); len(found) > 0 || v.Counts["aggregates"] != 2 {
		t.Errorf("verified: %v, %+v", found, v)
	}

	s.stopped(s.projectors()[0])
	s.SetEnv("PENSTOCK_PROJECTIONS=" + s.projectionsFile(strings.Replace(countsProjection, "payload.n", "payload.n * 1", 1)))
	s.startProjector(0)
	s.awaitLive(map[string]int64{"counts": 2})
	right("the read models after a rebuild")
	inQuarantine(5)
}

// mongoURI returns the connection string of the services.
func mongoURI(s *scenario) string {
	for _, setting := range s.Settings() {
		if value, ok := strings.CutPrefix(setting, "MONGODB_URI="); ok {
			return value
		}
	}
	return ""
}

// Aggregate ids that an older driver of .NET stored are read with the option uuidRepresentation,
// and keys of views with uuid().
func TestOlderUUIDs(t *testing.T) { scene(t, olderUUIDs) }

func olderUUIDs(t *testing.T) {
	t.Helper()
	const projections = countsProjection + `views:
  - name: owners
    collection: owners
    from:
      - {aggregateType: Counter, key: "uuid(part.owner, 'csharpLegacy')", on: {Counted: {set: {owner: payload.owner}, inc: {n: payload.n}}}, totals: {n: {sum: part.n}}}
`
	s := newScenarioOn(t, &workload.Workload{Projections: []byte(projections), Collections: []string{"counts", "owners"}}, harness.TopicOptions{})
	// older is the UUID of 15 bytes 0 and one other, as .NET stored it.
	older := func(last byte) bson.Binary {
		return bson.Binary{Subtype: bson.TypeBinaryUUIDOld, Data: append([]byte{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14}, last)}
	}
	const text = "00010203-0405-0607-0809-0a0b0c0d0e"
	insert := func(aggregate byte, ids ...int64) {
		t.Helper()
		for _, id := range ids {
			ev := bson.D{{Key: "aggregateId", Value: older(aggregate)}, {Key: "aggregateType", Value: "Counter"}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Counted"}, {Key: "timestamp", Value: time.Now()}, {Key: "payload", Value: bson.D{{Key: "n", Value: id}, {Key: "owner", Value: older(0xff)}}}}
			if _, err := s.events.InsertOne(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	insert(1, 1, 2)
	if stdout, _ := s.publisherCommand(0, "check"); !strings.Contains(stdout, "uuidRepresentation=csharpLegacy") {
		t.Errorf("check without the option: %s", stdout)
	}
	uri := mongoURI(s) + "&uuidRepresentation=csharpLegacy"
	s.SetEnv("MONGODB_URI=" + uri)
	s.start(1, 1)
	insert(2, 1)
	insert(1, 3)
	right := func(what string) {
		t.Helper()
		s.await(what, func() bool {
			var owner struct{ N int64 }
			_ = s.models.Collection("owners").FindOne(t.Context(), bson.D{{Key: "_id", Value: text + "ff"}}).Decode(&owner)
			return s.count(text+"01") == "n=6 after event 3" && s.count(text+"02") == "n=1 after event 1" && owner.N == 7
		})
	}
	right("the read models under the usual text of the UUIDs")
	s.awaitLive(map[string]int64{"counts": 1, "owners": 1})
	for _, projection := range []string{"counts", "owners"} {
		if found, v := s.verify(0, "--mongodb-uri="+uri, "--projection="+projection); len(found) > 0 || v.Counts["aggregates"] != 2 {
			t.Errorf("verified: %v, %+v", found, v)
		}
	}

	s.stopped(s.projectors()[0])
	if err := s.SetProjections([]byte(strings.ReplaceAll(projections, "payload.n}", "payload.n * 1}"))); err != nil {
		t.Fatal(err)
	}
	s.startProjector(0)
	s.awaitLive(map[string]int64{"counts": 2, "owners": 2})
	right("the read models after a rebuild")
	s.await("each event on the topic once", func() bool { return s.published() == 4 })
	if stdout, _ := s.publisherCommand(0, "quarantine", "list"); strings.Contains(stdout, "subtype 3") {
		t.Errorf("the quarantine has\n%s", stdout)
	}
	// Another order would publish the events again under other ids.
	if _, stderr := s.publisherCommand(1, "republish", "--from=2000-01-01T00:00:00Z", "--to=2030-01-01T00:00:00Z", "--yes", "--why=tested", "--mongodb-uri="+strings.Replace(uri, "csharp", "java", 1)); !strings.Contains(stderr, "uuidRepresentation") {
		t.Errorf("republish in another order: %s", stderr)
	}
}

// A publisher and a projector that read older UUIDs in different orders would publish and keep other
// ids: the projector settles no such message, and is not ready.
func TestOlderUUIDsInTwoOrders(t *testing.T) { scene(t, olderUUIDsInTwoOrders) }

func olderUUIDsInTwoOrders(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	uri := mongoURI(s) + "&uuidRepresentation="
	s.env["publisher-0"] = []string{"MONGODB_URI=" + uri + "csharpLegacy"}
	s.env["projector-0"] = []string{"MONGODB_URI=" + uri + "javaLegacy"}
	s.startPublisher(0)
	projector := s.startProjector(0)
	id := bson.Binary{Subtype: bson.TypeBinaryUUIDOld, Data: []byte{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}}
	if _, err := s.events.InsertOne(t.Context(), bson.D{{Key: "aggregateId", Value: id}, {Key: "aggregateType", Value: "Counter"}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Counted"}, {Key: "payload", Value: one}}); err != nil {
		t.Fatal(err)
	}
	s.await("a projector that is not ready", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "unreadable") && strings.Contains(text, "00010203-0405-0607-0809-0a0b0c0d0e0f") && strings.Contains(text, "uuidRepresentation in both")
	})
	if n := s.documents(s.models.Collection("counts")); n != 0 {
		t.Errorf("%d read models", n)
	}
}
