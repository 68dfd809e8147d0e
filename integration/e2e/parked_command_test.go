package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// projectorCommand runs a command of the projector with only the settings of MongoDB. Like
// `kubectl exec` without -t, it gives the command no terminal. It expects the exit code.
func (s *scenario) projectorCommand(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	databases := s.backend.Databases()
	out, err := s.programs.Run(s.t.Context(), harness.Projector, []string{
		"MONGODB_URI=" + s.backend.MongoURI(),
		"PENSTOCK_EVENTS_DATABASE=" + databases.Events,
		"PENSTOCK_STATE_DATABASE=" + databases.State,
		"PENSTOCK_READMODELS_DATABASE=" + databases.ReadModels,
		"PENSTOCK_WHO=ada",
	}, args)
	if err != nil {
		s.t.Fatal(err)
	}
	ran.add(suite.services.Projector, args, out.Status)
	if out.Status != code {
		s.t.Fatalf("projector %s: status %d, want %d\n%s%s", strings.Join(args, " "), out.Status, code, out.Stdout, out.Stderr)
	}
	return string(out.Stdout), string(out.Stderr)
}

// projectorList runs a command that prints a list, and decodes its JSON.
func (s *scenario) projectorList(args ...string) []map[string]any {
	s.t.Helper()
	stdout, _ := s.projectorCommand(0, append(args, "--output=json")...)
	var records []map[string]any
	if err := json.Unmarshal([]byte(stdout), &records); err != nil {
		s.t.Fatalf("projector %s: %v\n%s", strings.Join(args, " "), err, stdout)
	}
	return records
}

// countsProjection adds up the numbers of its events.
const countsProjection = `
projections:
  - name: counts
    collection: counts
    on:
      Counted: {inc: {n: payload.n}}
`

// counted is an event for countsProjection. A payload without n cannot be applied.
func counted(aggregate string, id int64, payload bson.D) workload.Event {
	return workload.Event{AggregateID: aggregate, AggregateType: "Counter", EventID: id, EventType: "Counted", Timestamp: time.Now().UTC().Truncate(time.Millisecond), Payload: payload}
}

// insert stores events.
func (s *scenario) insert(events ...workload.Event) {
	s.t.Helper()
	if _, err := s.events.InsertMany(s.t.Context(), events); err != nil {
		s.t.Fatal(err)
	}
}

// count returns the watermark and the sum of one read model of countsProjection.
func (s *scenario) count(aggregate string) string {
	s.t.Helper()
	var document struct{ LastEventID, N int64 }
	if err := s.models.Collection("counts").FindOne(s.t.Context(), bson.D{{Key: "_id", Value: aggregate}}).Decode(&document); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("n=%d after event %d", document.N, document.LastEventID)
}

// TestParkedAggregatesAreRetriedAndDiscarded checks that an operator can list parked
// aggregates, retry them without a next event, and discard them without loss.
func TestParkedAggregatesAreRetriedAndDiscarded(t *testing.T) {
	scene(t, parkedAggregatesAreRetriedAndDiscarded)
}

func parkedAggregatesAreRetriedAndDiscarded(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	for _, id := range []string{"a", "b", "c"} {
		s.insert(counted(id, 1, one), counted(id, 2, bson.D{}), counted(id, 3, one))
	}
	s.await("three aggregates parked and their later events acknowledged", func() bool {
		return s.parked(bson.E{Key: "reason", Value: "expression"}, bson.E{Key: "head", Value: 3}) == 3
	})

	// Nothing changes without --yes, or if the event fails again.
	s.steps(
		step{"projector parked list", 0, "PROJECTION … expression"},
		step{"projector parked list --projection=counts --reason=expression --limit=2", 0, "expression"},
		step{"projector parked list --projection=orders", 1, `no projection "orders": the catalog has counts`},
		step{"projector parked show counts a", 0, "no such key: n … a/2"},
		step{"projector parked show counts z", 1, ""},
		step{"projector parked retry", 1, "retry 3 parked aggregates (3 in counts by reason expression) … repeat it with --yes"},
		step{"projector parked retry --aggregate=a --yes --wait=1m", 1, "0 resumed, 1 parked again, 0 pending\n"},
		step{"projector parked discard --aggregate=b --yes", 2, ""},
		step{"projector parked discard --aggregate=b --yes --why=test --who=eve", 0, ""},
	)
	for _, flags := range []string{"--older-than=1h", "--reason=missing", "--aggregate=z"} {
		if found := s.projectorList("parked", "list", flags); len(found) > 0 {
			t.Errorf("%s lists %v", flags, found)
		}
	}
	if parked, discarded := len(s.projectorList("parked", "list")), len(s.projectorList("parked", "list", "--discarded")); parked != 2 || discarded != 1 {
		t.Errorf("%d parked and %d discarded, want 2 and 1", parked, discarded)
	}
	s.insert(counted("b", 4, one), counted("c", 4, one))
	s.await("the later events acknowledged", func() bool { return s.parked(bson.E{Key: "head", Value: 4}) == 2 })

	// Correct a field of the events in place, as docs/operations.md says, so that the
	// projections can apply them. No other event follows.
	for _, id := range []string{"a", "b", "c"} {
		if _, err := s.events.UpdateOne(t.Context(), bson.D{{Key: "aggregateId", Value: id}, {Key: "eventId", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "payload.n", Value: int64(1)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	s.steps(
		step{"projector explain --aggregate=a --last=3", 0, "the document after event 3"},
		step{"projector parked retry --aggregate=a --yes --why=corrected", 0, "1 resumed, 0 parked again, 0 pending\n"},
		step{"projector parked retry --yes --why=corrected", 0, "1 resumed, 0 parked again, 0 pending\n"},
	)
	if got := s.counts("a", "b", "c"); got != "a: n=3 after event 3, b: n=1 after event 1, c: n=4 after event 4" {
		t.Errorf("retried: %s", got)
	}
	s.steps(
		step{"projector parked retry --yes", 1, ""},
		step{"projector parked retry --discarded --yes", 0, ""},
		step{"projector audit --limit=1", 0, "parked retry"},
	)
	if got := s.count("b"); got != "n=4 after event 4" {
		t.Errorf("b: %s: events of a discarded aggregate are lost", got)
	}

	var changes []string
	for _, e := range s.projectorList("audit") {
		changes = append(changes, fmt.Sprint(strings.Split(e["who"].(string), "@")[0], " ", e["command"], " ", e["outcome"], " ", e["why"], " ", e["counts"]))
	}
	if got, want := strings.Join(changes, "\n"), `ada parked retry done <nil> map[retried:1]
ada parked retry done corrected map[retried:1]
ada parked retry done corrected map[retried:1]
eve parked discard done test map[discarded:1]
ada parked retry done <nil> map[retried:1]`; got != want {
		t.Errorf("the audit has\n%s\nwant\n%s", got, want)
	}
}
