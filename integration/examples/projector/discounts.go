package main

import (
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/app"
)

// discount is the read model: the discount that an order has earned. Penstock adds the
// fields _id, lastEventId and lastUpdatedAt.
type discount struct {
	TotalCents int64 `bson:"totalCents"`
	Percent    int64 `bson:"percent"`
}

// tiers are the discounts, the largest order first.
var tiers = []struct{ fromCents, percent int64 }{{100_000, 10}, {50_000, 5}, {10_000, 2}}

// apply returns the document after an event. A nil document means that there is none. An
// error parks the order: its later events wait until somebody retries it.
func apply(d *discount, ev *event.Event) (*discount, error) {
	switch ev.EventType {
	case "OrderPlacedEvent":
		return &discount{}, nil
	case "ItemAddedToOrderEvent", "ItemRemovedFromOrderEvent":
		if d == nil {
			return nil, errors.New("an item of an order that was not placed")
		}
		var item struct {
			Quantity   int64 `bson:"quantity"`
			PriceCents int64 `bson:"priceCents"`
		}
		if err := ev.Payload.Unmarshal(&item); err != nil {
			return nil, fmt.Errorf("read the item: %w", err)
		}
		cents := item.Quantity * item.PriceCents
		if ev.EventType == "ItemRemovedFromOrderEvent" {
			cents = -cents
		}
		d.TotalCents += cents
		d.Percent = percent(d.TotalCents)
	}
	return d, nil
}

// percent is the discount of an order.
func percent(totalCents int64) int64 {
	for _, tier := range tiers {
		if totalCents >= tier.fromCents {
			return tier.percent
		}
	}
	return 0
}

// version names the meaning of apply. Change it together with apply or tiers: the
// projectors then rebuild the read model beside the live one. Penstock cannot see a change
// of Go code.
const version = "1"

// newDiscounts declares the projection.
func newDiscounts() (*app.Projection, error) {
	return app.NewProjection(app.Declaration{
		Name: "discounts", Collection: "discountReadModels", AggregateType: "Order",
		Version: version,
		Apply:   app.Typed(apply),
	})
}
