package main

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// orderEvent is an event with a payload, as apply receives it.
func orderEvent(t *testing.T, eventType string, payload any) *event.Event {
	t.Helper()
	kind, data, err := bson.MarshalValue(payload)
	if err != nil {
		t.Fatal(err)
	}
	return &event.Event{Keys: event.Keys{EventType: eventType}, Payload: bson.RawValue{Type: kind, Value: data}}
}

// TestDiscountFollowsTheTotal checks the tiers while items come and go.
func TestDiscountFollowsTheTotal(t *testing.T) {
	t.Parallel()
	item := func(cents int64) bson.D {
		return bson.D{{Key: "quantity", Value: int64(2)}, {Key: "priceCents", Value: cents / 2}}
	}
	var d *discount
	for i, step := range []struct {
		eventType string
		payload   bson.D
		want      discount
	}{
		{"OrderPlacedEvent", bson.D{}, discount{}},
		{"ItemAddedToOrderEvent", item(9_998), discount{TotalCents: 9_998}},
		{"ItemAddedToOrderEvent", item(2), discount{TotalCents: 10_000, Percent: 2}},
		{"ItemAddedToOrderEvent", item(90_000), discount{TotalCents: 100_000, Percent: 10}},
		{"ItemRemovedFromOrderEvent", item(50_000), discount{TotalCents: 50_000, Percent: 5}},
		{"OrderPaidEvent", bson.D{}, discount{TotalCents: 50_000, Percent: 5}},
	} {
		next, err := apply(d, orderEvent(t, step.eventType, step.payload))
		if err != nil || next == nil || *next != step.want {
			t.Fatalf("step %d, %s: %+v (%v), want %+v", i, step.eventType, next, err, step.want)
		}
		d = next
	}
}

// TestItemOfNoOrderIsAnError checks that apply returns an error for an item of an unknown
// order, which parks the order.
func TestItemOfNoOrderIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := apply(nil, orderEvent(t, "ItemAddedToOrderEvent", bson.D{})); err == nil {
		t.Error("an item of an order that was not placed is no error")
	}
}
