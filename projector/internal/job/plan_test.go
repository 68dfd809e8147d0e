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
