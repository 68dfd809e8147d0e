package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
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
		`dead-letters: the dead-letter queue has 3 messages (expression: 2, other: 1). "projector deadletters list" shows what becomes of each.`:                                                                                                                                                                                                                                                deadletter.Conditions(map[string]int{"other": 1, "expression": 2, "missing": 0}),
		`build-failed orders: generation 0 of projection orders will not become live: 2 aggregates are parked. The live generation is untouched. "projector projections show orders" has the details; "projector projections retry orders" repeats the build.`:                                                                                                                                  builds,
		`build-waiting orders: generation 2 of projection orders waits: 3 read models have no events. "projector projections show orders" has the details.`:                                                                                                                                                                                                                                     waiting,
		`build-waiting paused: generation 4 of projection paused is being promoted, and the writes of the projection are paused: no reason recorded. "projector projections show paused" has the details.`:                                                                                                                                                                                      waiting,
		`not-reported silent: pod silent runs, but does not report its health. Its log says why: it has another version, or the state database refuses the report.`:                                                                                                                                                                                                                             silent,
	} {
		if text := health.Judge(found).String(); !strings.Contains(text+"\n", "\n"+line+"\n") {
			t.Errorf("got\n%s\nwithout\n%s", text, line)
		}
	}
	if len(parked) != 4 || len(builds) != 1 || len(waiting) != 2 || len(silent) != 1 || deadletter.Conditions(map[string]int{"other": 0}) != nil {
		t.Errorf("conditions without a reason: %v %v", parked, builds)
	}
}
