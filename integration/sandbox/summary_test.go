package sandbox_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox"
	"github.com/penstock-cdc/penstock/integration/verify"
)

func TestResultOK(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stored, shown, right int
		problem              string
	}{
		"complete":                      {10, 10, 3, ""},
		"an event missing in the store": {9, 10, 3, "wrong: the event store has 9 of 10 events\n"},
		"an event not projected":        {10, 9, 3, "wrong: the demo has seen 9 of 10 events reach their read models\n"},
		"a wrong read model":            {10, 10, 2, "wrong: 2 of 3 read models are right\n"},
	} {
		result := sandbox.Result{
			Report: &verify.Report{Events: test.stored, Expected: 3, Right: test.right},
			Status: sandbox.Status{Total: 10, Projected: test.shown},
		}
		if ok := test.problem == ""; result.OK() != ok {
			t.Errorf("%s: OK is %t", name, result.OK())
		}
		var out strings.Builder
		result.Print(&out)
		if _, problems, _ := strings.Cut(out.String(), "wrong: "); "wrong: "+problems != test.problem && problems+test.problem != "" {
			t.Errorf("%s: the summary ends with %q, not %q", name, problems, test.problem)
		}
	}
}

// An erasure that leaves something is a problem, and the places are printed. The last words say that
// all went well only if it did.
func TestResultWithAnErasure(t *testing.T) {
	t.Parallel()
	for status, ok := range map[int]bool{0: true, 1: false} {
		rebuilds := []sandbox.RebuildResult{{Reads: verify.Reads{Total: 9, Changed: 3}}}
		result := sandbox.Result{Report: &verify.Report{Expected: 1, Right: 1}, Rebuilds: rebuilds, Erasure: &sandbox.ErasureResult{Person: "user-1", Printed: "PLACE\n", Status: status}}
		var out strings.Builder
		result.Print(&out)
		if result.OK() != ok || !strings.Contains(out.String(), "erase --aggregate user-1 …\nPLACE\n") || ok != strings.Contains(out.String(), "nothing was lost or wrong") {
			t.Errorf("status %d: OK is %t, and the summary is %s", status, result.OK(), out.String())
		}
	}
}

// The second act succeeded if readers saw whole collections only, and if exactly the
// falsified document was found.
func TestRebuildResultOK(t *testing.T) {
	t.Parallel()
	reads := verify.Reads{Total: 9, Changed: 3}
	found := harness.Finding{AggregateID: "order-1", Kind: "different"}
	for name, test := range map[string]struct {
		change func(*sandbox.RebuildResult)
		ok     bool
	}{
		"complete":                     {func(*sandbox.RebuildResult) {}, true},
		"an empty collection":          {func(r *sandbox.RebuildResult) { r.Reads.Empty = 1 }, false},
		"two definitions":              {func(r *sandbox.RebuildResult) { r.Reads.Mixed = 1 }, false},
		"no change read":               {func(r *sandbox.RebuildResult) { r.Reads.Changed = 0 }, false},
		"falsified document not found": {func(r *sandbox.RebuildResult) { r.Found = nil }, false},
		"another document found":       {func(r *sandbox.RebuildResult) { r.Found[0].AggregateID = "order-2" }, false},
		"two documents found":          {func(r *sandbox.RebuildResult) { r.Found = append(r.Found, found) }, false},
		"finding of another kind":      {func(r *sandbox.RebuildResult) { r.Found[0].Kind = "missing" }, false},
		"not repaired":                 {func(r *sandbox.RebuildResult) { r.Left = r.Found }, false},
		"nothing falsified":            {func(r *sandbox.RebuildResult) { r.Falsified, r.Found = "", nil }, true},
		"nothing falsified, a finding": {func(r *sandbox.RebuildResult) { r.Falsified = "" }, false},
	} {
		r := sandbox.RebuildResult{Reads: reads, Falsified: "order-1", Found: []harness.Finding{found}}
		test.change(&r)
		if r.OK() != test.ok {
			t.Errorf("%s: OK is %t", name, r.OK())
		}
	}
}
