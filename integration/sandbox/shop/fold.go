package shop

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// The collections of projections.yaml.
const (
	users  = "userReadModels"
	orders = "orderReadModels"
	items  = "itemReadModels"
)

// fold is an independent fold for projections.yaml, written by hand and without any code of
// the projector.
func fold(events []workload.Event) (string, bson.M) {
	switch events[0].AggregateType {
	case "User":
		return users, foldUser(events)
	case "Order":
		return orders, foldOrder(events)
	default:
		return items, foldItem(events)
	}
}

// foldChanged is an independent fold for projections.changed.yaml.
func foldChanged(events []workload.Event) (string, bson.M) {
	collection, document := fold(events)
	if collection == orders {
		changeOrder(document, events)
	}
	return collection, document
}

// changeOrder adds the changed definition's fields of an order.
func changeOrder(order bson.M, events []workload.Event) {
	for _, ev := range events {
		switch p := fieldsOf(ev.Payload); ev.EventType {
		case "OrderPlacedEvent":
			order["removals"] = int64(0)
		case "ItemAddedToOrderEvent":
			if highest, ok := order["highestCents"].(int64); !ok || p["priceCents"].(int64) > highest {
				order["highestCents"] = p["priceCents"]
			}
		case "ItemRemovedFromOrderEvent":
			add(order, "removals", 1)
		}
	}
}

func foldUser(events []workload.Event) bson.M {
	var user bson.M
	for _, ev := range events {
		p := fieldsOf(ev.Payload)
		switch ev.EventType {
		case "UserRegisteredEvent":
			user = bson.M{"name": p["name"], "email": p["email"], "status": "registered", "since": ev.Timestamp}
		case "UserEmailUpdatedEvent":
			if p["newEmail"] == user["email"] {
				continue
			}
			appendTo(user, "formerEmails", user["email"])
			user["email"] = p["newEmail"]
			add(user, "emailChanges", 1)
		case "UserSuspendedEvent":
			user["status"], user["reason"] = "suspended", p["reason"]
		case "UserReinstatedEvent":
			user["status"] = "registered"
			delete(user, "reason")
		case "UserDeletedEvent":
			user = nil
		}
	}
	return user
}

func foldOrder(events []workload.Event) bson.M {
	order := bson.M{}
	for _, ev := range events {
		p := fieldsOf(ev.Payload)
		switch ev.EventType {
		case "OrderPlacedEvent":
			order["user"], order["status"], order["placedAt"] = p["userId"], "open", ev.Timestamp
		case "ItemAddedToOrderEvent":
			quantity := p["quantity"].(int64)
			add(order, "items", quantity)
			add(order, "totalCents", quantity*p["priceCents"].(int64))
			appendTo(order, "lines", bson.M{"sku": p["sku"], "quantity": quantity})
			if skus, _ := order["skus"].(bson.A); !slices.Contains(skus, p["sku"]) {
				appendTo(order, "skus", p["sku"])
			}
		case "ItemRemovedFromOrderEvent":
			quantity := p["quantity"].(int64)
			add(order, "items", -quantity)
			add(order, "totalCents", -quantity*p["priceCents"].(int64))
			lines, _ := order["lines"].(bson.A)
			order["lines"] = slices.DeleteFunc(lines, func(line any) bool {
				l := line.(bson.M)
				return l["sku"] == p["sku"] && l["quantity"] == quantity
			})
		case "OrderPaidEvent":
			order["status"], order["paidCents"] = "paid", order["totalCents"]
		case "OrderShippedEvent":
			order["status"], order["shippedAt"] = "shipped", ev.Timestamp
		}
	}
	return order
}

func foldItem(events []workload.Event) bson.M {
	item := bson.M{}
	for _, ev := range events {
		p := fieldsOf(ev.Payload)
		switch ev.EventType {
		case "ItemListedEvent":
			item["sku"], item["priceCents"], item["stock"] = p["sku"], p["priceCents"], p["stock"]
		case "ItemPriceChangedEvent":
			price := p["priceCents"].(int64)
			item["priceCents"] = price
			if lowest, ok := item["lowestCents"].(int64); !ok || price < lowest {
				item["lowestCents"] = price
			}
			if highest, ok := item["highestCents"].(int64); !ok || price > highest {
				item["highestCents"] = price
			}
			appendTo(item, "priceHistory", price)
		case "StockAdjustedEvent":
			add(item, "stock", p["delta"].(int64))
			add(item, "adjustments", 1)
		}
	}
	return item
}

// fieldsOf returns the payload's fields by name, with all integers as int64.
func fieldsOf(payload bson.D) map[string]any {
	fields := make(map[string]any, len(payload))
	for _, e := range payload {
		if narrow, ok := e.Value.(int32); ok {
			fields[e.Key] = int64(narrow)
			continue
		}
		fields[e.Key] = e.Value
	}
	return fields
}

func add(doc bson.M, field string, by int64) {
	current, _ := doc[field].(int64)
	doc[field] = current + by
}

func appendTo(doc bson.M, field string, value any) {
	list, _ := doc[field].(bson.A)
	doc[field] = append(list, value)
}
