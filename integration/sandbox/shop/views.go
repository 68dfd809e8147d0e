package shop

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// The views of projections.yaml, with the names of their collections.
const (
	customerOrders = "customerOrders"
	itemSales      = "itemSales"
)

// views are the oracles of the views, with the fold of itemSales.
func views(sales func([][]workload.Event) map[string]bson.M) []workload.View {
	return []workload.View{
		{Projection: customerOrders, Collection: customerOrders, AggregateTypes: []string{"User", "Order"}, Fold: foldCustomers},
		{Projection: itemSales, Collection: itemSales, AggregateTypes: []string{"Item", "Order"}, Fold: sales},
	}
}

// foldCustomers computes customerOrders from the read models of one aggregate.
func foldCustomers(histories [][]workload.Event) map[string]bson.M {
	customers := make(map[string]bson.M)
	customerOf := func(id string) bson.M {
		return document(customers, id, bson.M{"orders": bson.M{}, "count": int64(0), "openCents": int64(0), "spentCents": int64(0)})
	}
	for _, history := range histories {
		id := history[0].AggregateID
		if history[0].AggregateType == "User" {
			if user := foldUser(history); user != nil {
				customer := customerOf(id)
				customer["name"], customer["email"] = user["name"], user["email"]
			}
			continue
		}
		order := foldOrder(history)
		customer := customerOf(order["user"].(string))
		add(customer, "count", 1)
		total, _ := order["totalCents"].(int64)
		if order["status"] == "open" {
			add(customer, "openCents", total)
		} else {
			add(customer, "spentCents", total)
		}
		placed := order["placedAt"].(time.Time)
		if last, ok := customer["lastPlacedAt"].(time.Time); !ok || placed.After(last) {
			customer["lastPlacedAt"] = placed
		}
		shown := bson.M{}
		for _, field := range []string{"user", "status", "placedAt", "items", "totalCents"} {
			if value, ok := order[field]; ok {
				shown[field] = value
			}
		}
		customer["orders"].(bson.M)[id] = shown
	}
	return customers
}

// foldSales computes itemSales.
func foldSales(histories [][]workload.Event) map[string]bson.M {
	sales := foldChangedSales(histories)
	for _, item := range sales {
		delete(item, "paidCents")
	}
	return sales
}

// foldChangedSales computes itemSales of projections.changed.yaml.
func foldChangedSales(histories [][]workload.Event) map[string]bson.M {
	sales := make(map[string]bson.M)
	salesOf := func(sku string) bson.M {
		return document(sales, sku, bson.M{"orders": int64(0), "sold": int64(0), "cents": int64(0), "paidCents": int64(0)})
	}
	for _, history := range histories {
		if history[0].AggregateType == "Item" {
			item, sold := foldItem(history), salesOf(history[0].AggregateID)
			sold["priceCents"], sold["stock"] = item["priceCents"], item["stock"]
			continue
		}
		sold, cents, paid := make(map[string]int64), make(map[string]int64), false
		for _, ev := range history {
			p, sign := fieldsOf(ev.Payload), int64(1)
			switch ev.EventType {
			case "ItemRemovedFromOrderEvent":
				sign = -1
				fallthrough
			case "ItemAddedToOrderEvent":
				sku, quantity := p["sku"].(string), sign*p["quantity"].(int64)
				sold[sku] += quantity
				cents[sku] += quantity * p["priceCents"].(int64)
			case "OrderPaidEvent":
				paid = true
			}
		}
		for sku, quantity := range sold {
			if quantity == 0 {
				continue
			}
			item := salesOf(sku)
			add(item, "orders", 1)
			add(item, "sold", quantity)
			add(item, "cents", cents[sku])
			if paid {
				add(item, "paidCents", cents[sku])
			}
		}
	}
	return sales
}

// document returns the document of a key, in which one more part is counted. Its first part
// finds it empty.
func document(all map[string]bson.M, key string, empty bson.M) bson.M {
	if all[key] == nil {
		all[key] = empty
	}
	add(all[key], "parts", 1)
	return all[key]
}
