package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// Nothing else shows a second event with the same id.
func TestCheckWarnsOfAnIndexThatIsNotUnique(t *testing.T) {
	t.Parallel()
	events := server.Database(t).Collection("events")
	if _, err := events.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	history, err := eventstore.NewReader(events, event.DefaultFields(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	var r preflight.Report
	check{Report: &r, config: config.Config{Fields: event.DefaultFields()}, stores: &stores{events: events}}.index(t.Context(), history)
	var out bytes.Buffer
	err = r.Print(&out, preflight.Flags{})
	for _, want := range []string{"warning  event store, index: ", "dropped as a duplicate and listed nowhere", `keyPattern: {"aggregateId": 1, "eventId": 1}, prepareUnique: true`} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, not with %q\n%s", err, want, &out)
		}
	}
}
