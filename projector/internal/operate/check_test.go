package operate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// TestCheckSaysWhatViewsCost checks the lines that follow the result for each view.
func TestCheckSaysWhatViewsCost(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "shop.yaml", "projections: [{name: plain, collection: plain, on: {E: {delete: true}}}]"+shopViews)
	var out bytes.Buffer
	c := &checkCommand{Paths: []string{file}}
	if err := c.run(t.Context(), &Environment{stdout: &out, stderr: &out, Config: config.Config{}}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	const want = `the projections are right: 3
view customerOrders:
  an event's part and the documents that it changes are written in one transaction
  each part of Customer: its fields are the document's own
`
	if !strings.HasPrefix(out.String(), want) || !strings.Contains(out.String(), "\nview productSales:\n") || strings.Contains(out.String(), "view plain") {
		t.Errorf("printed\n%s", &out)
	}
}
