package readable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/event/eventtest"
	"github.com/penstock-cdc/penstock/publisher/internal/readable"
)

// unreadable is an event of that aggregate without an event id. If aggregate is nil, it has
// no aggregate id either.
func unreadable(tb testing.TB, aggregate any) (*event.Event, error) {
	tb.Helper()
	document := bson.D{{Key: "_id", Value: 1}, {Key: "number", Value: 7}}
	if aggregate != nil {
		document = append(document, bson.E{Key: "aggregateId", Value: aggregate})
	}
	ev, err := eventtest.Reader().Read(bsontest.Raw(document))
	if err == nil {
		tb.Fatal("the event is readable")
	}
	return &ev, err
}

// hold adds an unreadable event to a window.
func hold(tb testing.TB, w *readable.Window, aggregate any, now time.Time) {
	tb.Helper()
	ev, err := unreadable(tb, aggregate)
	w.Unreadable(ev, err, now)
}

func decide(tb testing.TB, w *readable.Window, now time.Time) int {
	tb.Helper()
	released, err := w.Decide(now)
	if err != nil {
		tb.Fatal(err)
	}
	return released
}

var start = time.Unix(1_700_000_000, 0)

func TestWrongNameTripsBeforeAnythingIsReleased(t *testing.T) {
	t.Parallel()
	for name, aggregate := range map[string]func(int) any{
		"event id":     func(i int) any { return fmt.Sprint("agg-", i%60) },
		"aggregate id": func(int) any { return nil },
	} {
		// A new window, as after a restart, releases nothing either.
		for range 3 {
			w := readable.NewWindow(event.DefaultFields(), readable.Limit{})
			var tripped error
			for i := range 10_000 {
				hold(t, w, aggregate(i), start)
				released, err := w.Decide(start)
				if tripped = err; err != nil {
					break
				}
				if released > 0 {
					t.Fatalf("%s: %d events were released", name, released)
				}
			}
			if !errors.Is(tripped, readable.ErrUnreadable) {
				t.Fatalf("%s: ended with %v", name, tripped)
			}
			for _, want := range []string{`51 of 51`, `PENSTOCK_FIELD_`, `"number"`, "PENSTOCK_UNREADABLE_LIMIT=1"} {
				if !strings.Contains(tripped.Error(), want) {
					t.Errorf("%s: %q does not say %s", name, tripped, want)
				}
			}
		}
	}
}

func TestOnePoisonEventIsReleased(t *testing.T) {
	t.Parallel()
	w := readable.NewWindow(event.DefaultFields(), readable.Limit{})
	hold(t, w, "a", start)
	for i := range 50 {
		if released := decide(t, w, start); released != 0 {
			t.Fatalf("released after %d readable events", i)
		}
		w.Readable(1)
	}
	if released := decide(t, w, start); released != 1 {
		t.Errorf("%d released after 50 readable events, which leave no room for a trip", released)
	}
	hold(t, w, "b", start)
	if released := decide(t, w, start.Add(9*time.Second)); released != 0 {
		t.Error("the event was released before the end of its hold")
	}
	if released := decide(t, w, start.Add(10*time.Second)); released != 1 {
		t.Error("the event is held after the end of its hold")
	}
}

func TestOnePoisonAggregateIsReleased(t *testing.T) {
	t.Parallel()
	w := readable.NewWindow(event.DefaultFields(), readable.Limit{})
	released := 0
	for range 5000 {
		hold(t, w, bson.Decimal128{}, start)
		released += decide(t, w, start)
	}
	if released < 4000 {
		t.Errorf("%d of 5000 events of one aggregate were released, though 1000 are held at most", released)
	}
	released += decide(t, w, start.Add(time.Minute))
	if released != 5000 {
		t.Errorf("%d of 5000 released in the end", released)
	}
}

func TestHeldEventsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		aggregates int
		trips      bool
	}{"few aggregates": {9, false}, "many aggregates": {10, true}} {
		ev, cause := unreadable(t, "x")
		w := readable.NewWindow(event.DefaultFields(), readable.Limit{Bytes: int64(test.aggregates*len(ev.Document)) - 1})
		// Earlier readable events do not excuse unreadable ones now.
		for range 100 {
			w.Readable(1)
		}
		for i := range test.aggregates {
			ev.RawAggregateID.Value = []byte{byte(i)}
			w.Unreadable(ev, cause, start)
		}
		released, err := w.Decide(start)
		if tripped := errors.Is(err, readable.ErrUnreadable); tripped != test.trips || !tripped && released != test.aggregates {
			t.Errorf("%s: released %d, %v", name, released, err)
		}
	}
}

func TestLimitOfOneDisablesTheWindow(t *testing.T) {
	t.Parallel()
	w := readable.NewWindow(event.DefaultFields(), readable.Limit{Share: 1})
	for i := range 1000 {
		hold(t, w, fmt.Sprint(i), start)
		if released := decide(t, w, start); released != 1 {
			t.Fatalf("released %d of 1", released)
		}
	}
}

// TestWindowThatTripsHasReleasedNoEvent compares the window with a list of all events.
// The window trips exactly when most of some N consecutive events are unreadable, with each
// aggregate counted once. None of these was released before. An event that no such N events
// can contain any more is released.
func TestWindowThatTripsHasReleasedNoEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(2, 12).Draw(rt, "window")
		limit := readable.Limit{
			Share: rapid.Float64Range(0.1, 0.95).Draw(rt, "share"), Events: size,
			Minimum: 1, Hold: time.Hour, Held: 1 << 20, Bytes: 1 << 40,
		}
		bound := int(limit.Share * float64(size))
		w := readable.NewWindow(event.DefaultFields(), limit)
		bias := rapid.IntRange(1, 9).Draw(rt, "bias")

		var counted []int // 0 for a readable event, otherwise the aggregate
		var held []int    // good events before each event that is held
		good := 0
		for range rapid.IntRange(1, 200).Draw(rt, "events") {
			if rapid.IntRange(0, 9).Draw(rt, "kind") >= bias {
				w.Readable(1)
				counted = append(counted, 0)
				good++
			} else {
				aggregate := rapid.IntRange(1, 30).Draw(rt, "aggregate")
				hold(t, w, aggregate, start)
				held = append(held, good)
				if !slices.Contains(counted[max(0, len(counted)-size):], aggregate) {
					counted = append(counted, aggregate)
				}
			}
			recent := counted[max(0, len(counted)-size):]
			bad := 0
			for _, c := range recent {
				if c != 0 {
					bad++
				}
			}
			released, err := w.Decide(start)
			if tripped := err != nil; tripped != (bad > bound) {
				rt.Fatalf("tripped: %v with %d of %d unreadable, %d allowed", tripped, bad, len(recent), bound)
			}
			if err != nil {
				// The window's own unreadable events are the latest ones. Each released
				// event was followed by more readable events than the window holds.
				if len(held) < bad {
					rt.Fatalf("%d held of %d unreadable ones in the window that trips", len(held), bad)
				}
				return
			}
			want := 0
			for want < len(held) && good-held[want] >= size-bound {
				want++
			}
			if released != want {
				rt.Fatalf("released %d, want %d", released, want)
			}
			held = held[want:]
		}
	})
}

// TestFewPoisonAggregatesNeverTrip draws any mixture in which fewer aggregates than the
// minimum are unreadable, with any timing. Each event must be released in the end.
func TestFewPoisonAggregatesNeverTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := readable.NewWindow(event.DefaultFields(), readable.Limit{Held: 20})
		now, put, released := start, 0, 0
		for range rapid.IntRange(1, 300).Draw(rt, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "pause")) * time.Millisecond)
			if rapid.Bool().Draw(rt, "readable") {
				w.Readable(1)
			} else {
				hold(t, w, rapid.IntRange(1, 9).Draw(rt, "aggregate"), now)
				put++
			}
			n, err := w.Decide(now)
			if err != nil {
				rt.Fatal(err)
			}
			released += n
		}
		released += decide(t, w, now.Add(time.Minute))
		if released != put {
			rt.Fatalf("%d of %d released", released, put)
		}
	})
}
