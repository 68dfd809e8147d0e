package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// ledgersProjection deletes some documents, so that aggregates without a document are
// verified too.
const ledgersProjection = `
projections:
  - name: ledgers
    collection: ledgers
    on:
      Counted: {inc: {n: payload.n}, push: {all: payload.n}}
      Closed: {delete: true}
`

// verified is the output of the command for a projection.
type verified struct {
	Projection, Job, State, Reason string
	Counts                         map[string]int64
	Findings                       []struct {
		AggregateID, Kind, Detail string
		Repaired                  bool
		Differences               []struct{ Path, Want, Have string }
	}
}

// verify runs the command and returns its findings, by aggregate.
func (s *scenario) verify(code int, args ...string) (map[string]string, verified) {
	s.t.Helper()
	path := s.projectionsFile(string(s.workload.Projections))
	stdout, stderr := s.projectorCommand(code, append([]string{"--projections=" + path, "verify", "--output=json", "--grace=5s"}, args...)...)
	var results []verified
	if err := json.Unmarshal([]byte(stdout), &results); err != nil || len(results) != 1 {
		s.t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	found := make(map[string]string)
	for _, f := range results[0].Findings {
		found[f.AggregateID] = f.Kind
		if f.Repaired {
			found[f.AggregateID] += ", repaired"
		}
	}
	return found, results[0]
}

// TestVerifyFindsAndRepairsWhatIsWrong checks under live load that a verification finds
// exactly the read models that were falsified by hand, that a repair corrects them, and
// that the next verification finds nothing. It works with projectors running, and without.
func TestVerifyFindsAndRepairsWhatIsWrong(t *testing.T) { scene(t, verifyFindsAndRepairsWhatIsWrong) }

func verifyFindsAndRepairsWhatIsWrong(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, &workload.Workload{Projections: []byte(ledgersProjection), Collections: []string{"ledgers"}}, harness.TopicOptions{})
	s.start(1, 2)
	one := bson.D{{Key: "n", Value: int64(1)}}
	for i := range 60 {
		id := fmt.Sprintf("still-%02d", i)
		s.insert(counted(id, 1, one), counted(id, 2, one), counted(id, 3, one))
		if i%3 == 0 {
			closed := counted(id, 4, one)
			closed.EventType = "Closed"
			s.insert(closed)
		}
	}
	ledgers := s.models.Collection("ledgers")
	s.await("40 of 60 ledgers open, 20 closed", func() bool {
		open, err := ledgers.CountDocuments(t.Context(), bson.D{{Key: "lastEventId", Value: 3}, {Key: "_id", Value: bson.D{{Key: "$regex", Value: "^still-"}}}})
		closed, e := s.models.Collection("watermarks").CountDocuments(t.Context(), bson.D{{Key: "lastEventId", Value: 4}})
		return err == nil && e == nil && open == 40 && closed == 20
	})

	// From here on, events of a few aggregates keep coming.
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		for id := int64(1); ctx.Err() == nil; id++ {
			for i := range 4 {
				_, _ = s.events.InsertOne(context.WithoutCancel(ctx), counted(fmt.Sprintf("busy-%d", i), id, one))
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	stopLoad := sync.OnceFunc(func() { stop(); load.Wait() })
	t.Cleanup(stopLoad)
	s.await("the busy ledgers", func() bool {
		n, err := ledgers.CountDocuments(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$regex", Value: "^busy-"}}}, {Key: "lastEventId", Value: bson.D{{Key: "$gt", Value: 5}}}})
		return err == nil && n == 4
	})
	if found, v := s.verify(0); len(found) > 0 || v.State != "done" || v.Counts["aggregates"] < 64 {
		t.Fatalf("found %v although nothing is wrong: %+v", found, v)
	}

	set := func(id string, change bson.D) {
		t.Helper()
		result, err := ledgers.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: change}})
		if err != nil || result.MatchedCount != 1 {
			t.Fatalf("falsify %s: %+v, %v", id, result, err)
		}
	}
	set("still-01", bson.D{{Key: "n", Value: int64(300)}})
	set("still-02", bson.D{{Key: "n", Value: int32(3)}})
	set("busy-1", bson.D{{Key: "by hand", Value: true}})
	if _, err := ledgers.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "still-04"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ledgers.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "still-03"}, {Key: "lastEventId", Value: int64(4)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "n", Value: int64(3)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ledgers.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "nobody"}, {Key: "lastEventId", Value: int64(4)}, {Key: "lastGeneration", Value: int64(1)}, {Key: "n", Value: int64(3)}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"still-01": "different", "still-02": "different", "still-03": "different", "still-04": "missing", "busy-1": "different", "nobody": "extra",
	}
	found, v := s.verify(1)
	if !maps.Equal(found, want) {
		t.Fatalf("found %v, want %v", found, want)
	}
	for _, f := range v.Findings {
		if f.AggregateID == "still-01" && (len(f.Differences) != 1 || f.Differences[0].Path != "n" || f.Differences[0].Have != "long" || f.Differences[0].Want != "long") {
			t.Errorf("differences of still-01: %+v", f.Differences)
		}
	}
	if _, v := s.verify(1, "--projection=ledgers", "--limit=2"); len(v.Findings) != 2 || v.Counts["different"] < 3 {
		t.Errorf("the first two findings are %+v, of %v", v.Findings, v.Counts)
	}
	if _, v := s.verify(0, "--aggregate=still-06", "--sample=100%"); v.Counts["aggregates"] != 1 {
		t.Errorf("one aggregate that is right: %+v", v)
	}

	for id := range want {
		if id != "nobody" {
			want[id] += ", repaired"
		}
	}
	if found, _ := s.verify(1, "--repair", "--yes", "--why=falsified by hand"); !maps.Equal(found, want) {
		t.Fatalf("repaired %v, want %v", found, want)
	}
	s.steps(step{"projector audit", 0, "falsified by hand"})
	const condition = "has left 1 read model wrong"
	if status, _ := s.projectorCommand(0, "status"); !strings.Contains(status, ": degraded\n") || !strings.Contains(status, condition) {
		t.Errorf("with a read model that a repair does not delete, the status is\n%s", status)
	}
	conditions := func() float64 {
		return s.metric("projector", "penstock_projector_health_conditions", "condition", "wrong-read-models")
	}
	s.await("the same verdict of the projectors", func() bool { return conditions() > 0 })
	if _, err := ledgers.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "nobody"}}); err != nil {
		t.Fatal(err)
	}
	if found, v := s.verify(0); len(found) > 0 {
		t.Errorf("after the repair: %v, %+v", found, v)
	}
	s.await("no condition", func() bool { return conditions() == 0 })
	stopLoad()

	// The command works without a projector.
	s.Kill()
	set("still-05", bson.D{{Key: "n", Value: int64(0)}})
	if found, _ := s.verify(1, "--repair", "--yes", "--aggregate=still-05"); !maps.Equal(found, map[string]string{"still-05": "different, repaired"}) {
		t.Errorf("without a projector: %v", found)
	}
	s.steps(step{"projector audit", 0, `verify aggregate "still-05" of ledgers`})
	if found, v := s.verify(1, "--aggregate=nope"); len(found) > 0 || v.Counts["unknown"] != 1 {
		t.Errorf("an aggregate that does not exist: %v, %+v", found, v)
	}
}

// A missing right ends the command, and the result names the right. Nobody would wait for it in
// front of a terminal.
func TestVerifyEndsIfARightIsMissing(t *testing.T) { scene(t, verifyEndsIfARightIsMissing) }

func verifyEndsIfARightIsMissing(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	servers := s.standIns("refuse the projectors' updates")
	s.start(1, 1)
	s.insert(counted("one", 1, one), counted("two", 1, one))
	s.awaitCounts("one: n=1 after event 1, two: n=1 after event 1", "one", "two")
	if _, err := s.models.Collection("counts").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "two"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 7}}}}); err != nil {
		t.Fatal(err)
	}
	for _, right := range [][2]string{{"update", "findings"}, {"find", "events"}} {
		servers.Forbid(right[0], right[1])
		if _, v := s.verify(1); v.State != "failed" || !strings.Contains(v.Reason, "(Unauthorized)") {
			t.Errorf("without the right to %s in %s: %+v", right[0], right[1], v)
		}
		servers.Mongo.ClearFaults()
	}
	if found, _ := s.verify(1); found["two"] != "different" {
		t.Errorf("found %v", found)
	}
}
