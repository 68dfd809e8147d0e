package sandbox

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// The view shows what the projector's commands print.
func TestRebuildStatusEqualsTheOutputOfTheCommands(t *testing.T) {
	t.Parallel()
	var projections []harness.ProjectionState
	var jobs []harness.JobState
	decode := func(text string, to any) {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	decode(`[{"name": "users", "state": "live", "live": {"generation": 4}},
		{"name": "orders", "state": "catching up", "live": {"generation": 1}, "building": {"generation": 2, "state": "catching up", "reason": "pods"}}]`, &projections)
	decode(`[{"id": "orders.2.sweep-0", "kind": "sweep", "generation": 2, "total": 900, "counts": {"events": 300}},
		{"id": "orders.2.build", "kind": "build", "generation": 2, "total": 900, "counts": {"events": 900}}]`, &jobs)
	got := rebuildStatus("orders", projections, jobs)
	want := RebuildStatus{Projection: "orders", Live: 1, Building: 2, State: "catching up", Reason: "pods", Job: "sweep", Done: 300, Total: 900}
	if got != want {
		t.Errorf("the status is %+v, not %+v", got, want)
	}

	got.Reads = verify.Reads{Total: 17, Mixed: 2}
	var out bytes.Buffer
	NewView(&out).Show(Status{Phase: phaseRebuilding, Elapsed: time.Second, Rebuilds: []RebuildStatus{got}})
	if line := `orders generation=2 state="catching up" job=sweep events=300/900 reads=17 empty=0 mixed=2`; !strings.Contains(out.String(), line) {
		t.Errorf("the line is\n%s", out.String())
	}
}

func TestFindingsArePrintedInOneLine(t *testing.T) {
	t.Parallel()
	one := harness.Finding{Projection: "orders", AggregateID: "order-1", Kind: "different"}
	for want, found := range map[string][]harness.Finding{
		"every read model equals the fold of its events": nil,
		"orders order-1: different":                      {one},
		"orders order-1: different; orders order-1: different; orders order-1: different; and 1 more": {one, one, one, one},
	} {
		if got := findings(found); got != want {
			t.Errorf("%d findings are %q, not %q", len(found), got, want)
		}
	}
}
