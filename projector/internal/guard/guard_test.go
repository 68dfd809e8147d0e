package guard_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/projector/internal/guard"
)

var rule = guard.Rule{Projection: "orders", EventType: "Placed"}

func explain(bad, recent int) error { return fmt.Errorf("%d of %d failed", bad, recent) }

func TestGuardTripsBeforeAnEventIsSetAsideIfAllAreBad(t *testing.T) {
	t.Parallel()
	var tripped []error
	g := guard.New(guard.Options{Tripped: func(err error) { tripped = append(tripped, err) }})
	for i := range 50 {
		if g.Bad(rule, fmt.Sprint(i), explain) {
			t.Fatalf("event %d was set aside", i)
		}
	}
	if len(tripped) != 1 || tripped[0].Error() != "circuit breaker: 11 of 11 failed" || !errors.Is(g.Err(), tripped[0]) {
		t.Errorf("tripped with %v", tripped)
	}
	g.Good(rule, 1000)
	if g.Bad(rule, "x", explain) {
		t.Error("Bad returned true although the guard has tripped")
	}
}

func TestRepeatedBadEventIsSetAsideAndCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard.New(guard.Options{})
		begun := time.Now()
		for !g.Bad(rule, "a/1", explain) {
			<-time.After(50 * time.Millisecond)
			if time.Since(begun) > time.Minute {
				t.Fatal("the event is held back for ever")
			}
		}
		if held := time.Since(begun); held != 10*time.Second {
			t.Errorf("it was held back for %s", held)
		}
		for range 100 {
			if !g.Bad(rule, "a/1", explain) {
				t.Fatal("Bad returned false for a redelivered event that was allowed before")
			}
		}
		if g.Err() != nil {
			t.Error(g.Err())
		}
	})
}

func TestBadEventAmongGoodOnesIsSetAsideAtOnce(t *testing.T) {
	t.Parallel()
	g := guard.New(guard.Options{})
	g.Good(rule, 9)
	if !g.Bad(rule, "a/1", explain) {
		t.Error("Bad returned false for 1 bad event among 9 good ones")
	}
	if g.Bad(guard.Rule{}, "m", explain) {
		t.Error("the good events of one rule counted for another")
	}
}

func TestLimitOfOneDisablesTheGuard(t *testing.T) {
	t.Parallel()
	g := guard.New(guard.Options{Share: 1})
	for i := range 1000 {
		if !g.Bad(rule, fmt.Sprint(i), explain) {
			t.Fatal("an event was held back")
		}
	}
}

// TestGuardSetsAsideNoMoreThanTheShare draws the rate of bad events. In any window, the
// guard sets aside no more events than the share or the minimum allows. A stream with one
// bad event in a hundred never trips it.
func TestGuardSetsAsideNoMoreThanTheShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := guard.Options{
			Share:   rapid.Float64Range(0.05, 0.9).Draw(rt, "share"),
			Window:  rapid.IntRange(100, 400).Draw(rt, "window"),
			Minimum: rapid.IntRange(4, 12).Draw(rt, "minimum"),
		}
		percent := rapid.SampledFrom([]int{0, 1, 5, 30, 95, 100}).Draw(rt, "percent")
		events := rapid.IntRange(200, 800).Draw(rt, "events")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		synctest.Test(t, func(*testing.T) {
			g := guard.New(o)
			var aside []bool
			held := map[string]bool{}
			ask := func(id string) {
				if g.Bad(rule, id, explain) {
					delete(held, id)
					aside = append(aside, true)
				} else {
					held[id] = true
				}
			}
			for i := range events {
				// The one bad event in a hundred is not random, because chance could
				// group many of them.
				bad := random.IntN(100) < percent
				if percent == 1 {
					bad = i%100 == 50
				}
				if bad {
					ask(fmt.Sprint(i))
				} else {
					g.Good(rule, 1)
					aside = append(aside, false)
				}
				for id := range held {
					ask(id)
				}
				<-time.After(100 * time.Millisecond)
			}
			count := 0
			for i, is := range aside {
				if is {
					count++
				}
				if i >= o.Window && aside[i-o.Window] {
					count--
				}
				if most := max(o.Minimum, int(o.Share*float64(min(i+1, o.Window)))); count > most {
					rt.Fatalf("%d of the last events were set aside, at most %d may be", count, most)
				}
			}
			if percent <= 1 && g.Err() != nil {
				rt.Fatalf("tripped by %d %%: %v", percent, g.Err())
			}
			if percent == 100 && g.Err() == nil {
				rt.Fatal("the guard did not trip although every event is bad")
			}
		})
	})
}
