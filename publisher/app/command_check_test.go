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
	database := server.Database(t)
	events := database.Collection("events")
	if _, err := events.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	history := eventstore.NewReader(events, event.DefaultFields(), zerolog.Nop())
	var r preflight.Report
	read := r.Index(t.Context(), history, database.Name())
	var out bytes.Buffer
	err := r.Print(&out, preflight.Flags{})
	for _, want := range []string{"warning  event store, index: ", "dropped as a duplicate and listed nowhere", `keyPattern: {"aggregateId": 1, "eventId": 1}, prepareUnique: true`} {
		if err != nil || !read || !strings.Contains(out.String(), want) {
			t.Errorf("%v, not with %q\n%s", err, want, &out)
		}
	}
}

func TestCheckSaysWhatTheSampleHas(t *testing.T) {
	t.Parallel()
	stored := bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Opened"}, {Key: "payload", Value: bson.D{}}}
	for name, test := range map[string]struct {
		events  bson.A
		payload string
		want    string
	}{
		"empty store":           {nil, "payload", "ok       event store, events: the store has no event yet"},
		"unreadable event":      {bson.A{stored, stored[:1]}, "payload", "warning  event store, events: 1 of a sample of 2 break the contract"},
		"one event":             {bson.A{stored}, "payload", "ok       event store, events: a sample of 1 keeps the contract"},
		"ids of two types":      {bson.A{stored, append(bson.D{{Key: "aggregateId", Value: 7}}, stored[1:]...)}, "payload", "the ids of this event store are of type string"},
		"wrong field":           {bson.A{stored}, "paylod", `warning  event store, events: no event of a sample of 1 has a payload in the field "paylod"`},
		"one event has no data": {bson.A{stored, stored[:3]}, "payload", "ok       event store, events: a sample of 2 keeps the contract"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := server.Database(t)
			s := &stores{events: database.Collection("events"), state: database}
			for _, document := range test.events {
				if _, err := s.events.InsertOne(t.Context(), document); err != nil {
					t.Fatal(err)
				}
			}
			c := config.Config{Fields: event.DefaultFields()}
			c.Fields.Payload, c.Stream.Name = test.payload, "events"
			var r preflight.Report
			check{Report: &r, config: c, stores: s}.sample(t.Context(), eventstore.NewReader(s.events, c.EventFields(), zerolog.Nop()))
			var out bytes.Buffer
			if err := r.Print(&out, preflight.Flags{}); err != nil || !strings.Contains(out.String(), test.want) {
				t.Errorf("%v, not with %q\n%s", err, test.want, &out)
			}
		})
	}
}
