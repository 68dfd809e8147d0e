package shop_test

import (
	"reflect"
	"testing"

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

// The fold must notice what goes wrong in a pipeline, or it proves nothing.
func TestFoldNoticesAnEventLostTwiceOrSwapped(t *testing.T) {
	t.Parallel()
	w := shop.New(20000, 1)
	byAggregate := make(map[string][]workload.Event)
	for _, ev := range w.Events {
		byAggregate[ev.AggregateID] = append(byAggregate[ev.AggregateID], ev)
	}
	noticed := map[string]int{}
	for _, history := range byAggregate {
		if len(history) < 4 || history[0].AggregateType != "Item" {
			continue
		}
		_, right := w.Fold(history)
		last := len(history) - 1
		for fault, broken := range map[string][]workload.Event{
			"lost":  history[:last],
			"twice": append(append([]workload.Event{}, history...), history[last]),
		} {
			if _, got := w.Fold(broken); !reflect.DeepEqual(got, right) {
				noticed[fault]++
			}
		}
	}
	for _, fault := range []string{"lost", "twice"} {
		if noticed[fault] == 0 {
			t.Errorf("no fold noticed an event %s", fault)
		}
	}
}
