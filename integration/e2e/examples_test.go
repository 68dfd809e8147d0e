package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// exampleProjections run beside the example's projection in Go.
const exampleProjections = `
projections:
  - name: items
    collection: items
    aggregateType: Order
    on:
      ItemAddedToOrderEvent: {inc: {items: payload.quantity}}
`

// TestExamplesWorkTogether runs the example of a writer and the example of a projector in
// one pipeline. The projection in Go and the declared one both get the written events.
func TestExamplesWorkTogether(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir,
		"github.com/penstock-cdc/penstock/integration/examples/writer", "github.com/penstock-cdc/penstock/integration/examples/projector")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the examples: %v\n%s", err, out)
	}
	s := newScenarioOn(t, &workload.Workload{
		Projections: []byte(exampleProjections), Collections: []string{"items", "discountReadModels"},
	}, harness.TopicOptions{})
	pipeline, err := harness.NewPipeline(s.backend, harness.PipelineOptions{
		Programs: harness.Binaries{Publisher: suite.services.Publisher, Projector: filepath.Join(dir, "projector")},
		Dir:      t.TempDir(), Projections: []byte(exampleProjections),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Pipeline = pipeline
	s.start(1, 1)

	for _, want := range []string{"order-1 has 2 events", "order-1 has 3 events"} {
		writer := exec.CommandContext(t.Context(), filepath.Join(dir, "writer"), "order-1")
		writer.Env = []string{"MONGODB_URI=" + s.backend.MongoURI(), "PENSTOCK_EVENTS_DATABASE=" + s.backend.Databases().Events}
		out, err := writer.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Fatalf("the writer prints %q (%v), want %q", got, err, want)
		}
	}
	for collection, want := range map[string]bson.M{
		"discountReadModels": {"totalCents": int64(1800), "percent": int64(0)},
		"items":              {"items": int64(4)},
	} {
		s.await(collection+" shows the order", func() bool {
			var got bson.M
			err := s.models.Collection(collection).FindOne(t.Context(), bson.D{{Key: "_id", Value: "order-1"}}).Decode(&got)
			if err != nil || got["lastEventId"] != int64(3) {
				return false
			}
			for field, value := range want {
				if got[field] != value {
					t.Fatalf("%s: %s is %v, want %v", collection, field, got[field], value)
				}
			}
			return true
		})
	}
}
