package operate

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestNoVariableShowsASecret(t *testing.T) {
	t.Parallel()
	projections := filepath.Join(t.TempDir(), "projections.yaml")
	if err := os.WriteFile(projections, []byte("projections: [{name: users, collection: users, on: {Created: {set: {a: payload.a}}}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := map[string]string{"AZURE_SERVICEBUS_SUBSCRIPTION_NAME": "projector", "PENSTOCK_PROJECTIONS": projections}
	testkit.NoVariableShowsASecret(t, base, func(args []string, lookup func(string) (string, bool), out io.Writer) ([]string, error) {
		l, err := Parse(args, lookup, out, out, nil)
		if err != nil {
			return nil, err
		}
		return l.Variables, nil
	})
}
