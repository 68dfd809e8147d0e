package e2e_test

import (
	"fmt"
	"strings"
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
	jobs := s.state.Collection("jobs")
	for i, state := range []string{"planning", "done"} {
		if _, err := jobs.InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: fmt.Sprint("counts.2.build-", i)}, {Key: "kind", Value: "build"}, {Key: "projection", Value: "counts"}, {Key: "generation", Value: int64(2)},
			{Key: "state", Value: state}, {Key: "createdAt", Value: time.Now().Add(time.Duration(-i) * time.Hour)}, {Key: "epoch", Value: int64(0)}, {Key: "total", Value: int64(7)},
			{Key: "ranges", Value: 4}, {Key: "rangesDone", Value: 4 * i}, {Key: "counts", Value: bson.D{{Key: "events", Value: int64(12 * i)}}}, {Key: "planned", Value: false},
		}); err != nil {
			t.Fatal(err)
		}
	}
	list := s.projectorList("jobs", "list")
	if len(list) != 2 || list[0]["id"] != "counts.2.build-0" || list[0]["state"] != "planning" {
		t.Errorf("listed %v", list)
	}
	if n := len(s.projectorList("jobs", "list", "--state=done", "--kind=build", "--projection=counts")); n != 1 {
		t.Errorf("%d jobs are done, want 1", n)
	}
	if stdout, _ := s.projectorCommand(0, "jobs", "list"); !strings.Contains(stdout, "4 of 4") || !strings.Contains(stdout, "12 events") {
		t.Errorf("the table is\n%s", stdout)
	}
	if stdout, _ := s.projectorCommand(0, "jobs", "show", "counts.2.build-1"); !strings.Contains(stdout, "planned amount:   7") {
		t.Errorf("shown\n%s", stdout)
	}
	if _, stderr := s.projectorCommand(1, "jobs", "show", "nothing"); !strings.Contains(stderr, `"projector jobs list" lists them`) {
		t.Errorf("an unknown job: %s", stderr)
	}
	s.projectorCommand(2, "jobs", "list", "--state=slow")

	state := func() string {
		var job struct{ State, Reason string }
		if err := jobs.FindOne(t.Context(), bson.D{{Key: "_id", Value: "counts.2.build-0"}}).Decode(&job); err != nil {
			t.Fatal(err)
		}
		return job.State + " " + strings.Split(job.Reason, "@")[0]
	}
	if _, stderr := s.projectorCommand(1, "jobs", "pause", "counts.2.build-0"); !strings.Contains(stderr, "pause job counts.2.build-0, a build of projection counts, generation 2, which is planning") {
		t.Errorf("without --yes: %s", stderr)
	}
	for _, step := range []struct{ verb, want string }{{"pause", "paused by ada"}, {"resume", "planning "}, {"cancel", "cancelled by ada"}} {
		stdout, _ := s.projectorCommand(0, "jobs", step.verb, "counts.2.build-0", "--yes", "--why=enough")
		if got := state(); got != step.want || stdout != "job counts.2.build-0 is "+strings.Fields(step.want)[0]+"\n" {
			t.Errorf("%s: the job is %q, printed %s", step.verb, got, stdout)
		}
	}
	s.projectorCommand(1, "jobs", "resume", "counts.2.build-0", "--yes")
	if n := len(s.projectorList("audit", "--command=jobs")); n != 4 {
		t.Errorf("the audit has %d changes of jobs, want 4", n)
	}
}
