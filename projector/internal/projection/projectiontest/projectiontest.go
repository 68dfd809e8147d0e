// Package projectiontest has what tests of projections, and of the engine that folds into
// them, share.
package projectiontest

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// eventTime is the time of all events.
var eventTime = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

// Event makes an event with a payload given as Extended JSON.
func Event(id int64, eventType, payload string) *event.Event {
	ev := &event.Event{
		Keys:      event.Keys{AggregateID: "a-1", AggregateType: "Thing", EventID: id, EventType: eventType},
		Timestamp: eventTime,
	}
	if payload != "" {
		ev.Payload = testkit.Value(testkit.FromJSON(payload))
	}
	return ev
}

// JSON returns a document as canonical Extended JSON, which shows the types; "nil" for
// no document.
func JSON(tb testing.TB, raw bson.Raw) string {
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

// All compiles declarations.
func All(tb testing.TB, yaml string) []*projection.Projection {
	tb.Helper()
	projections, err := projection.Parse("test.yaml", []byte(yaml))
	if err != nil {
		tb.Fatal(err)
	}
	return projections
}

// One compiles declarations of one projection.
func One(tb testing.TB, yaml string) *projection.Projection {
	tb.Helper()
	projections := All(tb, yaml)
	if len(projections) != 1 {
		tb.Fatalf("%d projections", len(projections))
	}
	return projections[0]
}

// On compiles a projection with one handler, given in YAML's flow style.
func On(tb testing.TB, handler string) *projection.Projection {
	tb.Helper()
	return One(tb, "projections: [{name: p, collection: c, on: {E: "+handler+"}}]")
}
