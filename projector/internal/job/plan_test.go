package job_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// failNext makes the next n commands of one name fail, as during a failover. The fail point
// is the only one of the server, so a test that uses it is not parallel.
func failNext(t *testing.T, n int, command string, with bson.E) {
	t.Helper()
	if err := server.Database(t).Client().Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: bson.D{{Key: "times", Value: n}}},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{command}}, with}},
	}).Err(); err != nil {
		t.Fatal(err)
	}
}

// TestPlanOfUnknownOutcomeIsWorkedOn checks that a job is never done without work. Its plan
// is stored, but the planner gets an error.
func TestPlanOfUnknownOutcomeIsWorkedOn(t *testing.T) {
	for name, fail := range map[string]func(*testing.T){
		"no majority has confirmed the plan": func(t *testing.T) {
			t.Helper()
			failNext(t, 1, "update", bson.E{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}}})
		},
		"the state of the job cannot be read": func(t *testing.T) {
			t.Helper()
			failNext(t, 2, "find", bson.E{Key: "errorCode", Value: 189}) // The driver repeats a read once.
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, job.Options{})
			j := s.create(t, job.Job{Kind: job.Sweep, Projection: "users"})
			planner := s.claim(t, j.ID, "planner")
			fail(t)
			if err := s.Plan(t.Context(), planner, parts(2), 0); err == nil {
				t.Fatal("the planner got no error")
			}
			for range 2 {
				s.must(t, s.Finish(t.Context(), s.claim(t, j.ID, "a"), map[string]int64{"events": 1}))
			}
			if j := s.get(t, j.ID); j.State != job.Done || j.Counts["events"] != 2 {
				t.Errorf("job is %+v", j)
			}
		})
	}
}

// TestPlanDeletesTheRangesOfEarlierPlans checks that planning again leaves no ranges behind.
func TestPlanDeletesTheRangesOfEarlierPlans(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.create(t, job.Job{Kind: job.Build, Projection: "users"})
	paused := s.claim(t, j.ID, "a")
	if _, err := s.Pause(t.Context(), j.ID, "wait"); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Plan(t.Context(), paused, parts(3), 0), job.ErrPaused)
	if _, err := s.Resume(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	s.must(t, s.Return(t.Context(), paused, 0, nil))
	s.must(t, s.Plan(t.Context(), s.claim(t, j.ID, "b"), parts(2), 0))
	if n, err := s.db.Collection(job.RangesCollectionName).CountDocuments(t.Context(), bson.D{}); n != 2 || err != nil {
		t.Errorf("%d ranges are stored, %v", n, err)
	}
}
