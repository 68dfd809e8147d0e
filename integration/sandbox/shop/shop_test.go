package shop_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

func TestNewIsDeterministicAndNumbersEveryAggregateFromOne(t *testing.T) {
	t.Parallel()
	const events = 5000
	w := shop.New(events, 7)
	if len(w.Events) != events {
		t.Fatalf("made %d events, not %d", len(w.Events), events)
	}
	if !reflect.DeepEqual(w.Events, shop.New(events, 7).Events) {
		t.Error("the same seed made other events")
	}
	last := make(map[string]int64)
	kinds := make(map[string]int)
	for _, ev := range w.Events {
		if ev.EventID != last[ev.AggregateID]+1 {
			t.Fatalf("%s: event %d follows event %d", ev.AggregateID, ev.EventID, last[ev.AggregateID])
		}
		last[ev.AggregateID] = ev.EventID
		kinds[ev.EventType]++
	}
	if len(last) != w.Aggregates() {
		t.Errorf("counts %d aggregates, not %d", w.Aggregates(), len(last))
	}
	for _, kind := range []string{
		"UserRegisteredEvent", "UserEmailUpdatedEvent", "UserSuspendedEvent", "UserReinstatedEvent",
		"UserDeletedEvent", "UserSignedInEvent", "OrderPlacedEvent", "ItemAddedToOrderEvent",
		"ItemRemovedFromOrderEvent", "OrderPaidEvent", "OrderShippedEvent", "ItemListedEvent",
		"ItemPriceChangedEvent", "StockAdjustedEvent",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among %d events", kind, events)
		}
	}
}

// The fold must detect the faults of a pipeline. Of events that add up or append, it must
// detect each one that is lost or applied twice, and each two that are swapped if their
// order matters.
func TestFoldDetectsLostRepeatedAndSwappedEvents(t *testing.T) {
	t.Parallel()
	w := shop.New(4000, 1)
	byAggregate := make(map[string][]workload.Event)
	for _, ev := range w.Events {
		byAggregate[ev.AggregateID] = append(byAggregate[ev.AggregateID], ev)
	}
	counted := []string{"ItemAddedToOrderEvent", "ItemRemovedFromOrderEvent", "ItemPriceChangedEvent", "StockAdjustedEvent"}
	ordered := []string{"ItemPriceChangedEvent, ItemPriceChangedEvent", "ItemAddedToOrderEvent, OrderPaidEvent", "ItemRemovedFromOrderEvent, OrderPaidEvent", "OrderPaidEvent, OrderShippedEvent"}
	tried := make(map[string]int)
	for id, history := range byAggregate {
		_, right := w.Fold(history)
		try := func(fault string, broken []workload.Event) {
			tried[fault]++
			if _, got := w.Fold(broken); reflect.DeepEqual(got, right) {
				t.Errorf("%s: not noticed: %s", id, fault)
			}
		}
		for i, ev := range history {
			if slices.Contains(counted, ev.EventType) {
				try(ev.EventType+" lost", slices.Delete(slices.Clone(history), i, i+1))
				try(ev.EventType+" twice", slices.Insert(slices.Clone(history), i, ev))
			}
			if i == 0 {
				continue
			}
			if pair := history[i-1].EventType + ", " + ev.EventType; slices.Contains(ordered, pair) {
				swapped := slices.Clone(history)
				swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
				try(pair+" swapped", swapped)
			}
		}
	}
	if faults := 2*len(counted) + len(ordered); len(tried) != faults {
		t.Errorf("of %d faults only these were tried: %v", faults, tried)
	}
}

// Each document of a changed definition differs from the first one's. For most orders and
// items, the difference comes from events before the last ones.
func TestChangeShowsInEveryDocumentAndNeedsHistory(t *testing.T) {
	t.Parallel()
	w := shop.WithViews(4000, 1)
	byAggregate := make(map[string][]workload.Event)
	for _, ev := range w.Events {
		byAggregate[ev.AggregateID] = append(byAggregate[ev.AggregateID], ev)
	}
	orders, sales := w.Change.Changed[0], w.Change.Changed[1]
	documents, late := 0, 0
	for id, history := range byAggregate {
		collection, before := w.Fold(history)
		changed, after := w.Change.Fold(history)
		if collection != changed {
			t.Fatalf("%s is in %s, and after the change in %s", id, collection, changed)
		}
		if collection != orders.Collection {
			if !reflect.DeepEqual(before, after) {
				t.Errorf("%s changes, and is in %s", id, collection)
			}
			continue
		}
		documents++
		if before[orders.Field] != nil || after[orders.Field] == nil {
			t.Errorf("%s has %s %v before the change and %v after it", id, orders.Field, before[orders.Field], after[orders.Field])
		}
		if _, missed := w.Change.Fold(history[len(history)-1:]); !reflect.DeepEqual(missed["highestCents"], after["highestCents"]) {
			late++
		}
	}
	if documents == 0 || late < documents/2 {
		t.Errorf("%d of %d orders need their history", late, documents)
	}

	before, after := documentsOf(w.Views, sales.Collection, byAggregate), documentsOf(w.Change.Views, sales.Collection, byAggregate)
	paid := 0
	for id, document := range after {
		if before[id] == nil || before[id][sales.Field] != nil || document[sales.Field] == nil {
			t.Errorf("%s is %v before the change and %v after it", id, before[id], document)
		}
		if document[sales.Field] != int64(0) {
			paid++
		}
	}
	if len(before) != len(after) || paid < len(after)/2 {
		t.Errorf("%d of %d items have orders that are paid, and there were %d", paid, len(after), len(before))
	}
}

// documentsOf returns the documents of the view with a collection.
func documentsOf(views []workload.View, collection string, byAggregate map[string][]workload.Event) map[string]bson.M {
	for _, view := range views {
		if view.Collection != collection {
			continue
		}
		var histories [][]workload.Event
		for _, history := range byAggregate {
			if slices.Contains(view.AggregateTypes, history[0].AggregateType) {
				histories = append(histories, history)
			}
		}
		return view.Fold(histories)
	}
	return nil
}

// The fold of a view must detect each event that is lost or applied twice if it changes a
// total, in whichever of the aggregates it is.
func TestFoldOfViewsDetectsLostAndRepeatedEvents(t *testing.T) {
	t.Parallel()
	w := shop.WithViews(1500, 1)
	byAggregate := make(map[string][]workload.Event)
	for _, ev := range w.Events {
		byAggregate[ev.AggregateID] = append(byAggregate[ev.AggregateID], ev)
	}
	tried := make(map[string]int)
	for _, view := range w.Change.Views {
		right := documentsOf(w.Change.Views, view.Collection, byAggregate)
		if len(right) == 0 {
			t.Fatalf("%s has no documents", view.Collection)
		}
		for id, history := range byAggregate {
			for i, ev := range history {
				var faults map[string][]workload.Event
				switch fault := view.Projection + " " + ev.EventType; fault {
				case "customerOrders ItemAddedToOrderEvent", "customerOrders ItemRemovedFromOrderEvent",
					"itemSales ItemAddedToOrderEvent", "itemSales ItemRemovedFromOrderEvent":
					faults = map[string][]workload.Event{
						fault + " lost":  slices.Delete(slices.Clone(history), i, i+1),
						fault + " twice": slices.Insert(slices.Clone(history), i, ev),
					}
				case "customerOrders OrderPaidEvent", "itemSales OrderPaidEvent":
					if i == len(history)-1 {
						faults = map[string][]workload.Event{fault + " lost": history[:i]}
					}
				}
				for fault, broken := range faults {
					if tried[fault]++; tried[fault] > 20 {
						continue
					}
					byAggregate[id] = broken
					if reflect.DeepEqual(documentsOf(w.Change.Views, view.Collection, byAggregate), right) {
						t.Errorf("%s: not noticed: %s", id, fault)
					}
					byAggregate[id] = history
				}
			}
		}
	}
	if len(tried) != 10 {
		t.Errorf("of ten faults only these were tried: %v", tried)
	}
}

func TestProjectionsAreNotShared(t *testing.T) {
	t.Parallel()
	before := bytes.Clone(shop.WithViews(1, 1).Projections)
	_ = append(shop.New(1, 1).Projections, "\nwrong"...)
	if after := shop.WithViews(1, 1).Projections; !bytes.Equal(before, after) {
		t.Error("what was appended to the projections without views is in those with views")
	}
}
