package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// TestJobsAreListedAndControlled checks that the commands about jobs show and change the
// job collection, without a running projector.
func TestJobsAreListedAndControlled(t *testing.T) { scene(t, jobsAreListedAndControlled) }

func jobsAreListedAndControlled(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	for i, state := range []string{"planning", "done"} {
		if _, err := s.state.Collection("jobs").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: fmt.Sprint("counts.2.build-", i)}, {Key: "kind", Value: "build"}, {Key: "projection", Value: "counts"}, {Key: "generation", Value: int64(2)},
			{Key: "state", Value: state}, {Key: "createdAt", Value: time.Now().Add(time.Duration(-i) * time.Hour)}, {Key: "epoch", Value: int64(0)}, {Key: "total", Value: int64(7)},
			{Key: "ranges", Value: 4}, {Key: "rangesDone", Value: 4 * i}, {Key: "counts", Value: bson.D{{Key: "events", Value: int64(12 * i)}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	const job = "counts.2.build-0"
	s.steps(
		step{"projector jobs list", 0, "4 of 4 … 12 events"},
		step{"projector jobs list --output=json", 0, `"total": 7`},
		step{"projector jobs cancel nothing --yes", 1, `"projector jobs list" lists them`},
		step{"projector jobs list --state=slow", 2, ""},
		step{"projector jobs cancel " + job, 1, "cancel job " + job + ", a build of projection counts, generation 2, which is planning"},
		step{"projector jobs cancel --yes --why=enough " + job, 0, "job " + job + " is cancelled\n"},
		step{"projector jobs list --state=cancelled --kind=build --projection=counts", 0, "ada"},
		step{"projector jobs cancel --yes counts.2.build-1", 1, "which is done"},
	)
	if list := s.projectorList("jobs", "list"); len(list) != 2 || list[0]["id"] != job || list[0]["state"] != "cancelled" {
		t.Errorf("listed %v", list)
	}
	if n := len(s.projectorList("audit", "--command=jobs")); n != 2 {
		t.Errorf("the audit has %d changes of jobs, want 2", n)
	}
}
