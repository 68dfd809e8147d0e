package operate

import (
	"io"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestNoVariableShowsASecret(t *testing.T) {
	t.Parallel()
	projections := writeFile(t, "projections.yaml", "projections: [{name: users, collection: users, on: {Created: {set: {a: payload.a}}}}]")
	base := map[string]string{"AZURE_SERVICEBUS_SUBSCRIPTION_NAME": "projector", "PENSTOCK_PROJECTIONS": projections}
	testkit.NoVariableShowsASecret(t, base, func(args []string, lookup func(string) (string, bool), out io.Writer) ([]string, error) {
		l, err := Parse(args, lookup, out, out, nil)
		if err != nil {
			return nil, err
		}
		return l.Variables, nil
	})
}
