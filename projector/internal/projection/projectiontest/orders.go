package projectiontest

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// Orders declares a projection with one handler of five operations and a condition.
const Orders = `
projections:
  - name: orders
    collection: orders
    on:
      ItemAdded:
        when: payload.quantity > 0
        set: {customer: payload.customer, updated: timestamp}
        inc: {items: payload.quantity}
        push: {lines: "{'sku': payload.sku, 'quantity': payload.quantity, 'price': payload.price * 2}"}
        max: {most: payload.quantity}
`

// OrderEvents are n events of an order.
func OrderEvents(n int) []*event.Event {
	all := make([]*event.Event, n)
	for i := range all {
		all[i] = Event(int64(i+1), "ItemAdded", fmt.Sprintf(`{"customer":"Jane Doe","sku":"sku-%d","quantity":%d,"price":1999,"note":"a note of some length that nobody reads","address":{"street":"Main St 1","zip":"12345"}}`, i, i%7+1))
	}
	return all
}

// Order returns a read model with ten fields and an array of n documents.
func Order(n int) bson.Raw {
	d := bson.D{{Key: "_id", Value: "a-1"}, {Key: "lastEventId", Value: int64(0)}}
	for i := range 7 {
		d = append(d, bson.E{Key: fmt.Sprintf("field%d", i), Value: "some value"})
	}
	lines := bson.A{}
	for i := range n {
		lines = append(lines, bson.D{{Key: "price", Value: int64(1)}, {Key: "quantity", Value: int64(i)}, {Key: "sku", Value: "sku"}})
	}
	return testkit.Raw(append(d, bson.E{Key: "items", Value: int64(3)}, bson.E{Key: "lines", Value: lines}))
}
