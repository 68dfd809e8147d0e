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
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

var rule = guard.Rule{Projection: "orders", EventType: "Placed"}

func TestManyFailuresAreTheRulesUntilItHasAppliedAnEvent(t *testing.T) {
	t.Parallel()
	g := guard.NewRules(0.2)
	suspected := 0
	bad := func(id any) model.Judgement {
		v, first := g.Bad(rule, fmt.Sprint(id))
		if first {
			suspected++
		}
		return v
	}
	for i := range 50 {
		want := model.Undecided
		if i >= 10 {
			want = model.RuleWrong
		}
		if got := bad(i); got != want {
			t.Fatalf("failure %d: %v, want %v", i+1, got, want)
		}
	}
	if got := bad(0); got != model.RuleWrong || suspected != 1 {
		t.Errorf("first failure again: %v; the rule was reported %d times in a row, want once", got, suspected)
	}
	// A few failures are the events', whatever their share, once the rule works.
	g.Good(rule)
	for i := range 12 {
		if got := bad(i); (got == model.EventWrong) != (i < 10) {
			t.Errorf("failure %d of the rule that works: %v", i+1, got)
		}
	}
	if suspected != 2 {
		t.Errorf("the rule was reported %d times, want twice", suspected)
	}
	other := guard.Rule{Projection: "orders", EventType: "Cancelled"}
	if got, _ := g.Bad(other, "a"); got != model.Undecided {
		t.Errorf("another rule that has not succeeded: %v", got)
	}
}

func TestFewFailuresAreTheEventsAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guard.NewRules(0.2)
		bad := func(id int) model.Judgement {
			v, _ := g.Bad(rule, fmt.Sprint(id))
			return v
		}
		for range 9 {
			for id := range 10 {
				if got := bad(id); got != model.Undecided {
					t.Fatalf("failure of event %d: %v", id, got)
				}
			}
			<-time.After(time.Second)
		}
		<-time.After(time.Second)
		for range 3 {
			for id := range 10 {
				if got := bad(id); got != model.EventWrong {
					t.Fatalf("failure of event %d after %s: %v", id, guard.HoldTime, got)
				}
			}
		}
	})
}

func TestLimitOfOneMakesEveryFailureTheEvents(t *testing.T) {
	t.Parallel()
	g := guard.NewRules(1)
	for i := range 1000 {
		if got, first := g.Bad(rule, fmt.Sprint(i)); got != model.EventWrong || first {
			t.Fatalf("failure %d: %v", i, got)
		}
	}
}

// TestShareOfWrongEventsIsBounded draws the rate of failing events. In any window, no more
// events than the share or the minimum are called wrong. A rule that fails for one event in
// a hundred is never suspected.
func TestShareOfWrongEventsIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const window, minimum = 1000, 10
		share := rapid.Float64Range(0.05, 0.9).Draw(rt, "share")
		percent := rapid.SampledFrom([]int{0, 1, 5, 30, 95, 100}).Draw(rt, "percent")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		g := guard.NewRules(share)
		var wrong []bool
		suspected := 0
		for i := range rapid.IntRange(200, 3000).Draw(rt, "events") {
			// The one failing event in a hundred is not random, because chance could group
			// many of them.
			failing := random.IntN(100) < percent
			if percent == 1 {
				failing = i%100 == 50
			}
			if !failing {
				g.Good(rule)
				wrong = append(wrong, false)
				continue
			}
			v, first := g.Bad(rule, fmt.Sprint(i))
			if first {
				suspected++
			}
			if v == model.EventWrong {
				wrong = append(wrong, true)
			}
		}
		count := 0
		for i, is := range wrong {
			if is {
				count++
			}
			if i >= window && wrong[i-window] {
				count--
			}
			if limit := max(minimum, int(share*float64(min(i+1, window)))); count > limit {
				rt.Fatalf("%d of the last events are called wrong, at most %d may be", count, limit)
			}
		}
		if percent <= 1 && suspected > 0 {
			rt.Fatalf("the rule was suspected with %d %% failing events", percent)
		}
		if percent == 100 && len(wrong) > 0 {
			rt.Fatal("an event was called wrong although every event fails")
		}
	})
}

// reading is a Reading with the errors that it has reported.
type reading struct {
	*guard.Reading
	reported []error
}

func newReading() *reading {
	r := &reading{}
	r.Reading = guard.NewReading(func(err error) { r.reported = append(r.reported, err) })
	return r
}

// err is the present error. wantRead says whether a message must have been an event.
func (r *reading) err(wantRead bool) error {
	err, read := r.Err()
	if read != wantRead {
		return errors.Join(err, fmt.Errorf("a message was an event: %v, want %v", read, wantRead))
	}
	return err
}

func (r *reading) bad(id any) bool {
	return r.Bad(fmt.Sprint(id), func(n int) error { return fmt.Errorf("%d failed", n) })
}

// TestNothingIsDeadLetteredIfNoMessageIsAnEvent checks that the first event ends that.
func TestNothingIsDeadLetteredIfNoMessageIsAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReading()
		for i := range 50 {
			if r.bad(i) {
				t.Fatalf("message %d may be dead-lettered", i)
			}
		}
		<-time.After(time.Hour)
		if r.bad(0) {
			t.Error("message 0 may be dead-lettered after an hour")
		}
		if len(r.reported) != 1 || r.reported[0].Error() != "circuit breaker: 11 failed" || !errors.Is(r.err(false), r.reported[0]) {
			t.Errorf("reported %v, the error is %v", r.reported, r.err(false))
		}
		r.Good()
		for i := range 50 {
			if !r.bad(i) {
				t.Fatalf("message %d may not be dead-lettered although another one is an event", i)
			}
		}
		if len(r.reported) != 2 || r.reported[1] != nil || r.err(true) != nil {
			t.Errorf("reported %v, the error is %v", r.reported, r.err(true))
		}
	})
}

// TestStreamWithoutEventsIsHeldBack checks that messages are no longer dead-lettered if all
// of many are not events, and that the process stays ready, because its settings are right.
func TestStreamWithoutEventsIsHeldBack(t *testing.T) {
	t.Parallel()
	r := newReading()
	r.Good()
	allowed := 0
	for i := range 5000 {
		if r.bad(i) {
			allowed++
		}
	}
	if allowed != 1000 || r.err(true) == nil || len(r.reported) != 1 {
		t.Errorf("%d may be dead-lettered, reported %v, the error is %v", allowed, r.reported, r.err(true))
	}
	r.Good()
	if !r.bad("x") || r.err(true) != nil {
		t.Error("an event did not end that")
	}
}

func TestFewMessagesThatAreNotEventsAreDeadLetteredAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReading()
		begun := time.Now()
		for !r.bad("a") {
			<-time.After(50 * time.Millisecond)
			if time.Since(begun) > time.Minute {
				t.Fatal("the message is held back for ever")
			}
		}
		if held := time.Since(begun); held != guard.HoldTime {
			t.Errorf("it was held back for %s", held)
		}
		for range 100 {
			if !r.bad("a") {
				t.Fatal("a message that is delivered again may not be dead-lettered")
			}
		}
		if len(r.reported) > 0 {
			t.Error(r.reported)
		}
	})
}
