package shop

import (
	"bytes"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

var (
	//go:embed projections.yaml
	projections []byte
	//go:embed projections.changed.yaml
	changed []byte
)

// New makes a shop's history of n events; the same seed makes the same history. Events of
// many aggregates are interleaved, as in a live store. Each read model is of one aggregate.
func New(n int, seed uint64) *workload.Workload {
	w := WithViews(n, seed)
	w.Projections, w.Views = withoutViews(w.Projections), nil
	w.Change.Projections, w.Change.Views = withoutViews(w.Change.Projections), nil
	w.Change.Changed = w.Change.Changed[:1]
	return w
}

// withoutViews leaves out the last section of a file of projections. What is appended to the
// result does not overwrite that section.
func withoutViews(file []byte) []byte {
	models, _, _ := bytes.Cut(file, []byte("# The views of the shop"))
	return slices.Clip(models)
}

// WithViews is like New, with views over several aggregates.
func WithViews(n int, seed uint64) *workload.Workload {
	g := &generator{
		rng: rand.New(rand.NewPCG(seed, 0)),
		now: time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC),
	}
	for len(g.events) < n {
		g.step()
	}
	return &workload.Workload{
		Events: g.events[:n], Projections: projections,
		Collections: []string{users, orders, items},
		Oracle:      workload.Oracle{Fold: fold, Views: views(foldSales)},
		Erasure: &workload.Erasure{
			Collection: users, Values: []string{"name", "email"}, Mask: []string{"payload.name", "payload.email", "payload.newEmail"},
		},
		Change: &workload.Change{
			Projections: changed,
			Oracle:      workload.Oracle{Fold: foldChanged, Views: views(foldChangedSales)},
			Changed: []workload.Changed{
				{
					Projection: "orders", Collection: orders, Field: "removals",
					Falsify: bson.D{{Key: "$inc", Value: bson.D{{Key: "totalCents", Value: int64(1)}}}},
				},
				{
					Projection: itemSales, Collection: itemSales, Field: "paidCents",
					Falsify: bson.D{{Key: "$inc", Value: bson.D{{Key: "sold", Value: int64(1)}}}},
				},
			},
		},
	}
}

// generator keeps just enough of the shop's state to make plausible events.
type generator struct {
	rng    *rand.Rand
	now    time.Time
	events []workload.Event

	users, items []*entity
	// open are the orders that still change. Full orders are removed.
	open               []*order
	registered, orders int
}

// entity is an aggregate that has events.
type entity struct {
	id   string
	kind string
	last int64
}

type order struct {
	entity
	lines []line
	paid  bool
}

type line struct {
	sku                  string
	quantity, priceCents int64
}

// step makes the next event or two of one aggregate.
func (g *generator) step() {
	g.now = g.now.Add(time.Duration(1+g.rng.IntN(900)) * time.Millisecond)
	switch roll := g.rng.IntN(100); {
	case len(g.items) == 0 || roll < 4:
		g.listItem()
	case len(g.users) == 0 || roll < 12:
		g.registerUser()
	case roll < 22:
		g.changeUser()
	case roll < 34:
		g.changeItem()
	case len(g.open) == 0 || roll < 48:
		g.placeOrder()
	default:
		g.changeOrder()
	}
}

func (g *generator) listItem() {
	n := len(g.items) + 1
	item := &entity{id: fmt.Sprintf("item-%05d", n), kind: "Item"}
	g.items = append(g.items, item)
	g.emit(item, "ItemListedEvent", bson.D{
		{Key: "sku", Value: item.id}, {Key: "priceCents", Value: g.price()}, {Key: "stock", Value: int64(g.rng.IntN(500))},
	})
}

func (g *generator) changeItem() {
	item := g.items[g.rng.IntN(len(g.items))]
	if g.rng.IntN(3) == 0 {
		g.emit(item, "ItemPriceChangedEvent", bson.D{{Key: "priceCents", Value: g.price()}})
		return
	}
	g.emit(item, "StockAdjustedEvent", bson.D{{Key: "delta", Value: int64(g.rng.IntN(41) - 20)}})
}

func (g *generator) registerUser() {
	g.registered++
	n := g.registered
	user := &entity{id: fmt.Sprintf("user-%05d", n), kind: "User"}
	g.users = append(g.users, user)
	g.emit(user, "UserRegisteredEvent", bson.D{
		{Key: "name", Value: fmt.Sprintf("User %d", n)}, {Key: "email", Value: fmt.Sprintf("user%d@example.org", n)},
	})
}

func (g *generator) changeUser() {
	at := g.rng.IntN(len(g.users))
	user := g.users[at]
	switch roll := g.rng.IntN(20); {
	case roll == 0:
		g.emit(user, "UserDeletedEvent", bson.D{})
		if g.rng.IntN(2) == 0 {
			g.users[at] = g.users[len(g.users)-1]
			g.users = g.users[:len(g.users)-1]
			return
		}
		// A user who has left may return, which makes the read model again.
		g.emit(user, "UserRegisteredEvent", bson.D{
			{Key: "name", Value: "Back " + user.id}, {Key: "email", Value: user.id + "@example.net"},
		})
	case roll < 3:
		g.emit(user, "UserSuspendedEvent", bson.D{{Key: "reason", Value: "chargeback"}})
		g.emit(user, "UserReinstatedEvent", bson.D{})
	case roll < 5:
		g.emit(user, "UserSignedInEvent", bson.D{{Key: "device", Value: "phone"}})
	default:
		// There are only four addresses, so some updates change nothing.
		g.emit(user, "UserEmailUpdatedEvent", bson.D{
			{Key: "newEmail", Value: fmt.Sprintf("%s+%d@example.org", user.id, g.rng.IntN(4))},
		})
	}
}

func (g *generator) placeOrder() {
	g.orders++
	o := &order{entity: entity{id: fmt.Sprintf("order-%06d", g.orders), kind: "Order"}}
	g.open = append(g.open, o)
	user := g.users[g.rng.IntN(len(g.users))]
	g.emit(&o.entity, "OrderPlacedEvent", bson.D{{Key: "userId", Value: user.id}})
	g.addLine(o)
}

func (g *generator) changeOrder() {
	at := g.rng.IntN(len(g.open))
	o := g.open[at]
	switch roll := g.rng.IntN(10); {
	case o.paid:
		g.emit(&o.entity, "OrderShippedEvent", bson.D{})
		g.open[at] = g.open[len(g.open)-1]
		g.open = g.open[:len(g.open)-1]
	case roll < 6 || len(o.lines) == 0:
		g.addLine(o)
	case roll < 7:
		gone := o.lines[0]
		o.lines = o.lines[1:]
		g.emit(&o.entity, "ItemRemovedFromOrderEvent", gone.payload())
	default:
		o.paid = true
		g.emit(&o.entity, "OrderPaidEvent", bson.D{})
	}
}

func (g *generator) addLine(o *order) {
	item := g.items[g.rng.IntN(len(g.items))]
	// Quantities increase within an order. So no two lines are equal, and a pull removes
	// exactly one.
	added := line{sku: item.id, quantity: o.last + 1, priceCents: g.price()}
	o.lines = append(o.lines, added)
	g.emit(&o.entity, "ItemAddedToOrderEvent", added.payload())
}

func (l line) payload() bson.D {
	return bson.D{{Key: "sku", Value: l.sku}, {Key: "quantity", Value: l.quantity}, {Key: "priceCents", Value: l.priceCents}}
}

func (g *generator) price() int64 { return int64(99 + 50*g.rng.IntN(200)) }

func (g *generator) emit(e *entity, eventType string, payload bson.D) {
	e.last++
	g.events = append(g.events, workload.Event{
		AggregateID: e.id, AggregateType: e.kind, EventID: e.last, EventType: eventType,
		Timestamp: g.now, Payload: payload,
	})
}
