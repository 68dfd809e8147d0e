package main

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

func openStore(t *testing.T) *Store {
	t.Helper()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	store, err := OpenStore(t.Context(), client.Database("shop").Collection("events"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestAppendRefusesAStaleVersion checks that a writer that has not seen the last event
// stores nothing, with one event and with several.
func TestAppendRefusesAStaleVersion(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	placed, item := Event{Type: "OrderPlacedEvent", Payload: bson.D{}}, Event{Type: "ItemAddedToOrderEvent", Payload: bson.D{}}
	if version, err := store.Append(t.Context(), "Order", "o-1", 0, placed, item); version != 2 || err != nil {
		t.Fatalf("the first append returns version %d (%v), want 2", version, err)
	}
	for name, stale := range map[string]func() (int64, error){
		"one event":      func() (int64, error) { return store.Append(t.Context(), "Order", "o-1", 1, item) },
		"several events": func() (int64, error) { return store.Append(t.Context(), "Order", "o-1", 1, item, item) },
	} {
		if _, err := stale(); !errors.Is(err, ErrConflict) {
			t.Errorf("%s after version 1: %v, want a conflict", name, err)
		}
	}
	if version, err := store.Version(t.Context(), "o-1"); version != 2 || err != nil {
		t.Errorf("the version is %d (%v), want 2", version, err)
	}
}

// TestConcurrentWritersLeaveNoGap checks that writers that compete for one order append
// ids without a gap and without a duplicate.
func TestConcurrentWritersLeaveNoGap(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	const writers = 4
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for {
				_, err := addItem(t.Context(), store, "o-1")
				if err == nil {
					return
				}
				if !errors.Is(err, ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, want := eventIDs(t.Context(), t, store), writers+1; len(got) != want {
		t.Fatalf("the order has the events %v, want %d", got, want)
	} else {
		for i, id := range got {
			if id != int64(i+1) {
				t.Fatalf("the order has the events %v, which have a gap", got)
			}
		}
	}
}

// eventIDs are the event ids of the order o-1, in ascending order.
func eventIDs(ctx context.Context, t *testing.T, store *Store) []int64 {
	t.Helper()
	cursor, err := store.events.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "aggregateId", Value: "o-1"}}}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "eventId", Value: 1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []stored
	if err := cursor.All(ctx, &found); err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, 0, len(found))
	for _, e := range found {
		ids = append(ids, e.EventID)
	}
	return ids
}
