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

// The view shows what the projector's command prints.
func TestRebuildsAreShownAsTheCommandPrintsThem(t *testing.T) {
	t.Parallel()
	var rebuild RebuildStatus
	if err := json.Unmarshal([]byte(`{"name": "orders", "state": "catching up", "live": {"generation": 1}, "building": {"generation": 2, "reason": "pods"}}`), &rebuild.ProjectionState); err != nil {
		t.Fatal(err)
	}
	rebuild.Reads = verify.Reads{Total: 17, Mixed: 2}
	var out bytes.Buffer
	NewView(&out).Show(Status{Phase: phaseRebuilding, Elapsed: time.Second, Rebuilds: []RebuildStatus{rebuild}})
	if line := `orders generation=2 state="catching up" reads=17 empty=0 mixed=2`; !strings.Contains(out.String(), line) {
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
