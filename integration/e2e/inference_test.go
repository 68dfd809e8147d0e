package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

// The projector writes the section events from the event store. With that section, it
// refuses a projection that uses a field that no event has.
func TestInferredSchemaRefusesAnUnknownField(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings a stand-in of its own: the event store holds a few events only")
	t.Parallel()
	uri := mongoemutest.Start(t, mongoemu.Config{}).URI()
	store := eventStore(t, uri)
	events := make([]any, 0, 5)
	for i, price := range []any{int32(10), 10.5, int64(11)} {
		events = append(events, bson.D{
			{Key: "aggregateId", Value: "o-1"}, {Key: "eventId", Value: i + 1}, {Key: "eventType", Value: "ItemAddedToOrderEvent"},
			{Key: "payload", Value: bson.D{{Key: "quantity", Value: int32(2)}, {Key: "priceCents", Value: price}}},
		})
	}
	events = append(events, bson.D{{Key: "note", Value: "no event"}})
	if _, err := store.InsertMany(t.Context(), events); err != nil {
		t.Fatal(err)
	}

	var problems strings.Builder
	infer := exec.CommandContext(t.Context(), suite.services.Projector, "infer", "2")
	infer.Env = append(os.Environ(), "MONGODB_URI="+uri, "PENSTOCK_EVENTS_DATABASE="+harness.EventsDatabase)
	infer.Stderr = &problems
	section, err := infer.Output()
	if err != nil {
		t.Fatalf("%v:\n%s", err, problems.String())
	}
	ran.add(infer.Path, infer.Args[1:], infer.ProcessState.ExitCode())
	const want = `# Inferred from 3 events. Events that were not among them may have other fields and types.
events:
  # events seen: 3
  ItemAddedToOrderEvent:
    type: object
    properties:
      priceCents: {type: number}
      quantity: {type: integer}
    required: [priceCents, quantity]
`
	if string(section) != want {
		t.Errorf("printed\n%s\nwant\n%s", section, want)
	}
	if !strings.Contains(problems.String(), `"events":1`) {
		t.Errorf("the document that is no event is not reported:\n%s", problems.String())
	}

	file := filepath.Join(t.TempDir(), "orders.yaml")
	check := func(projections string) (string, error) {
		if err := os.WriteFile(file, append(section, projections...), 0o600); err != nil {
			t.Fatal(err)
		}
		check := exec.CommandContext(t.Context(), suite.services.Projector, "check")
		check.Env = append(os.Environ(), "MONGODB_URI="+uri, "PENSTOCK_PROJECTIONS="+file,
			"AZURE_SERVICEBUS_CONNECTION_STRING=Endpoint=sb://localhost;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true",
			"AZURE_SERVICEBUS_TOPIC_NAME=events", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME=projector")
		out, err := check.CombinedOutput()
		return string(out), err
	}
	const projections = `projections:
  - name: orders
    collection: orders
    on:
      ItemAddedToOrderEvent:
        inc: {totalCents: payload.quantity * payload.priceCents}
`
	if out, err := check(projections); err != nil {
		t.Errorf("the right field is refused: %v\n%s", err, out)
	}
	out, err := check(strings.Replace(projections, "priceCents", "pricee", 1))
	if err == nil || !strings.Contains(out, "orders.yaml:15:27: projection orders: ItemAddedToOrderEvent: inc totalCents: payload has no field pricee: did you mean priceCents?") {
		t.Errorf("the wrong field: %v\n%s", err, out)
	}
}
