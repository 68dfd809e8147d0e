package project_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// eventOf makes an event with a payload given as Extended JSON.
func eventOf(tb testing.TB, id int64, eventType, payload string) *event.Event {
	tb.Helper()
	ev := &event.Event{
		Keys:      event.Keys{AggregateID: "a-1", AggregateType: "Thing", EventID: id, EventType: eventType},
		Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
	}
	if payload != "" {
		ev.Payload = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: rawOf(tb, payload)}
	}
	return ev
}

func rawOf(tb testing.TB, json string) bson.Raw {
	tb.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON([]byte(json), false, &d); err != nil {
		tb.Fatalf("%s: %v", json, err)
	}
	raw, err := bson.Marshal(d)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// jsonOf returns a document as canonical Extended JSON, which shows the types; "nil" for
// no document.
func jsonOf(tb testing.TB, raw bson.Raw) string {
	tb.Helper()
	if raw == nil {
		return "nil"
	}
	text, err := bson.MarshalExtJSON(raw, false, false)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// parseOne compiles declarations of one projection.
func parseOne(tb testing.TB, yaml string) *project.Projection {
	tb.Helper()
	projections, err := project.Parse("test.yaml", []byte(yaml))
	if err != nil {
		tb.Fatal(err)
	}
	if len(projections) != 1 {
		tb.Fatalf("%d projections", len(projections))
	}
	return projections[0]
}

// on compiles a projection with one handler, given in YAML's flow style.
func on(tb testing.TB, handler string) *project.Projection {
	tb.Helper()
	return parseOne(tb, "projections: [{name: p, collection: c, on: {E: "+handler+"}}]")
}
