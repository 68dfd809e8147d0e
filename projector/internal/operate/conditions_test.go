package operate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// Each condition names what is affected, and the command that helps.
func TestConditionsNameTheRemedy(t *testing.T) {
	t.Parallel()
	parked := ParkedConditions(ParkedKinds(map[park.Group]int64{
		{Projection: "orders", Reason: "expression"}:                  9,
		{Projection: "orders", Generation: 2, Reason: "expression"}:   3,
		{Projection: "orders", Generation: 3, Reason: "expression"}:   1,
		{Projection: "orders", Reason: "expression", Discarded: true}: 9,
		{Projection: "users", Reason: "missing"}:                      1,
		{Projection: "users", Reason: "rejected"}:                     2,
		{Projection: "totals", Reason: "expression"}:                  1,
		{Projection: "others", Reason: "missing"}:                     1,
		{Projection: "retired", Reason: "missing"}:                    1,
	}, map[string]*catalog.Entry{
		"orders":  {Live: &catalog.Live{Generation: 2}, Building: &catalog.Build{Generation: 3}},
		"users":   {Live: &catalog.Live{Generation: catalog.First}},
		"totals":  {Live: &catalog.Live{Generation: catalog.First}},
		"retired": {Live: &catalog.Live{Generation: catalog.First}, RetiredAt: new(time.Time)},
	}))
	builds := catalog.BuildConditions(map[string]*catalog.Entry{
		"orders": {Name: "orders", Building: &catalog.Build{State: catalog.Failed, Reason: "2 aggregates are parked"}},
		"users":  {Name: "users", Building: &catalog.Build{State: catalog.Verifying}},
	})
	waiting := catalog.WaitingConditions(map[string]*catalog.Entry{
		"orders": {Name: "orders", Building: &catalog.Build{Generation: 2, State: catalog.Verifying, Reason: "3 read models have no events"}},
		"paused": {Name: "paused", Building: &catalog.Build{Generation: 4, State: catalog.Promoting}},
		"failed": {Name: "failed", Building: &catalog.Build{State: catalog.Failed, Reason: "no"}},
		"users":  {Name: "users", Building: &catalog.Build{State: catalog.Verifying}},
	})
	silent := silentConditions([]podStatus{{Pod: "new", StartedAt: time.Now()}, {Pod: "silent"}, {Pod: "well"}}, []health.Report{{Process: "well"}})
	for line, found := range map[string][]health.Condition{
		`parked expression: aggregates are parked in projections (orders: 3, totals: 1), so their read models are not up to date. "projector parked list --reason expression" shows each with its error. Mend the cause, then "projector parked retry --reason expression".`:                                                                                                                    parked,
		`parked expression building: 1 aggregate is parked in the building generation of projection orders, which readers do not see yet. "projector parked list --projection orders --reason expression" shows each with its error. Mend the cause, then "projector parked retry --projection orders --reason expression".`:                                                                    parked,
		`parked missing: 1 aggregate is parked in projection users, so their read models are not up to date. "projector parked list --projection users --reason missing" shows each with its error. They are retried automatically.`:                                                                                                                                                            parked,
		`parked rejected: 2 aggregates are parked in projection users, so their read models are not up to date. "projector parked list --projection users --reason rejected" shows each with its error. Mend the cause (a document that was damaged by hand: repair it, or delete it and run "projector verify --repair"), then "projector parked retry --projection users --reason rejected".`: parked,
		`dead-letters: the dead-letter queue has 3 messages (expression: 2, other: 1). "projector deadletters list" shows what becomes of each.`:                                                                                                                                                                                                                                                deadletter.Conditions(deadletter.Count{Messages: map[string]int{"other": 1, "expression": 2, "missing": 0}}),
		`dead-letters: the dead-letter queue has at least 250 messages (other: 250). "projector deadletters list" shows what becomes of each.`:                                                                                                                                                                                                                                                  deadletter.Conditions(deadletter.Count{Messages: map[string]int{"other": 250}, Bounded: true}),
		`build-failed orders: generation 0 of projection orders will not become live: 2 aggregates are parked. The live generation is untouched. "projector projections show orders" has the details; "projector projections rebuild orders" repeats the build.`:                                                                                                                                builds,
		`build-waiting orders: generation 2 of projection orders waits: 3 read models have no events. "projector projections show orders" has the details.`:                                                                                                                                                                                                                                     waiting,
		`build-waiting paused: generation 4 of projection paused is being promoted, and the writes of the projection are paused: no reason recorded. "projector projections show paused" has the details.`:                                                                                                                                                                                      waiting,
		`not-reported silent: pod silent runs, but does not report its health. Its log says why: it has another version, or the state database refuses the report.`:                                                                                                                                                                                                                             silent,
	} {
		if text := health.Judge(found).String(); !strings.Contains(text+"\n", "\n"+line+"\n") {
			t.Errorf("got\n%s\nwithout\n%s", text, line)
		}
	}
	if len(parked) != 4 || len(builds) != 1 || len(waiting) != 2 || len(silent) != 1 || deadletter.Conditions(deadletter.Count{Messages: map[string]int{"other": 0}}) != nil {
		t.Errorf("conditions without a reason: %v %v", parked, builds)
	}
}

// A verification that leaves read models wrong is a condition, until a later one of the same
// aggregates, or of all, leaves none wrong.
func TestWrongReadModelsAreAConditionUntilTheyAreCompared(t *testing.T) {
	t.Parallel()
	entries := map[string]*catalog.Entry{"orders": {Live: &catalog.Live{Generation: 2}}}
	const all, one, share, other = `{}`, `{"aggregate":"a"}`, `{"sample":0.1}`, `{"aggregate":"b"}`
	type verification struct {
		params          string
		wrong, repaired int64
	}
	for name, test := range map[string]struct {
		done []verification // the newest one last
		want string
	}{
		"none":                      {nil, "ok"},
		"nothing wrong":             {[]verification{{all, 0, 0}}, "ok"},
		"all repaired":              {[]verification{{all, 3, 3}}, "ok"},
		"one not repaired":          {[]verification{{all, 3, 2}}, "job 0 has left 1 read model wrong. \"projector verify --projection orders --repair\""},
		"later none":                {[]verification{{all, 3, 0}, {all, 0, 0}}, "ok"},
		"one aggregate repaired":    {[]verification{{one, 1, 0}, {one, 1, 1}}, "ok"},
		"one of several repaired":   {[]verification{{all, 3, 0}, {one, 1, 1}}, "job 0 has left 3 read models wrong"},
		"another aggregate":         {[]verification{{one, 1, 0}, {other, 0, 0}}, "job 0 has left 1 read model wrong"},
		"a share, then all":         {[]verification{{share, 2, 0}, {all, 0, 0}}, "ok"},
		"all, then a share":         {[]verification{{all, 2, 0}, {share, 0, 0}}, "job 0 has left 2 read models wrong"},
		"an erased aggregate":       {[]verification{{`{"aggregate":"` + hashed("a") + `"}`, 1, 0}, {one, 0, 0}}, "ok"},
		"the newest one is counted": {[]verification{{all, 2, 0}, {one, 1, 0}}, "job 1 has left 1 read model wrong"},
	} {
		var jobs []job.Job
		for i, v := range test.done {
			var params bson.Raw
			if err := bson.UnmarshalExtJSON([]byte(v.params), false, &params); err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, job.Job{
				ID: fmt.Sprintf("job %d", i), Projection: "orders", Generation: 2, Params: params, Created: time.UnixMilli(int64(i)),
				Counts: map[string]int64{string(history.Different): v.wrong, string(history.Parked): 5, history.CountRepaired: v.repaired},
			}, job.Job{Projection: "orders", Generation: 1, Counts: map[string]int64{string(history.Missing): 9}})
		}
		if text := health.Judge(WrongConditions(jobs, entries)).String(); !strings.Contains(text, test.want) || test.want == "ok" && text != "ok" {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}
