package sandbox_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sandbox"
	"github.com/penstock-cdc/penstock/integration/verify"
)

func TestResultOK(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stored, shown, right int
		ok                   bool
	}{
		"all of it":                      {10, 10, 3, true},
		"an event that the store forgot": {9, 10, 3, false},
		"an event that is not shown":     {10, 9, 3, false},
		"a read model that is wrong":     {10, 10, 2, false},
	} {
		result := sandbox.Result{
			Report: &verify.Report{Events: test.stored, Expected: 3, Right: test.right},
			Status: sandbox.Status{Total: 10, Projected: test.shown},
		}
		if result.OK() != test.ok {
			t.Errorf("%s: OK is %t", name, result.OK())
		}
	}
}
