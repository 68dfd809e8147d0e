package history

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// serial makes a hook safe for concurrent use.
func serial(hook func() error) func() error {
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		return hook()
	}
}

// TestAnyInterleavingEndsWithTheFold builds a generation from random histories while a
// live stream writes it, and then sweeps it until nothing is behind. Workers are killed
// at saves and between requests, and others continue. At the end every read model equals
// the independent fold, and every aggregate that cannot be folded is parked.
func TestAnyInterleavingEndsWithTheFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newFakeStores()
		w.page = rapid.IntRange(1, 5).Draw(rt, "page")
		names := []string{"a", "b", "c", "d", "e", "f", "g"}
		last := map[string]int64{}
		ended := map[string]bool{}
		insert := func(name string, what int) stored {
			last[name]++
			if last[name] == 1 && what == 0 {
				// The history does not begin at event 1.
				last[name] = 3
			}
			e := stored{aggregate: name, aggregateType: aggregateType, id: last[name], kind: typeGood}
			switch {
			case name == "g":
				e.aggregateType = "Customer"
			case what == 1 && !ended[name]:
				e.kind = typePoison
			case what == 2 && !ended[name]:
				e.broken = true
			}
			// Each aggregate has at most one fault, so that the expected result is
			// unambiguous.
			ended[name] = ended[name] || e.kind == typePoison || e.broken
			return e
		}
		draw := func(label string) stored {
			return insert(rapid.SampledFrom(names).Draw(rt, label), rapid.IntRange(0, 40).Draw(rt, label+" kind"))
		}
		for range rapid.IntRange(0, 60).Draw(rt, "before") {
			w.events = append(w.events, draw("stored"))
		}
		// During the requests of the work, events are stored, and the live stream gets
		// any of the events.
		type action struct {
			insert  *stored
			deliver int
			kill    bool
		}
		var actions []action
		for range rapid.IntRange(0, 80).Draw(rt, "requests") {
			var a action
			switch rapid.IntRange(0, 5).Draw(rt, "action") {
			case 0:
				e := draw("live")
				a.insert = &e
			case 1, 2, 3:
				a.deliver = rapid.IntRange(1, 1000).Draw(rt, "delivery")
			case 4:
				a.kill = rapid.IntRange(0, 3).Draw(rt, "kill") == 0
			}
			actions = append(actions, a)
		}
		w.unknown = rapid.IntRange(0, 3).Draw(rt, "unknown")
		w.hook = serial(func() error {
			if len(actions) == 0 {
				return nil
			}
			a := actions[0]
			actions = actions[1:]
			w.mu.Lock()
			if a.insert != nil {
				w.events = append(w.events, *a.insert)
			}
			var delivered []stored
			if a.deliver > 0 && len(w.events) > 0 {
				delivered = append(delivered, w.events[a.deliver%len(w.events)])
			}
			w.mu.Unlock()
			for _, e := range delivered {
				w.deliver(e)
			}
			if a.kill {
				return errKilled
			}
			return nil
		})
		killAt := rapid.SliceOfN(rapid.IntRange(0, 6), 0, 6).Draw(rt, "kill at saves")
		stored := rapid.Bool().Draw(rt, "killed after the save")
		workers := newWorkers(t, w)
		workers.groupHistories = rapid.IntRange(1, 3).Draw(rt, "group")
		workers.Ranges = rapid.IntRange(1, 4).Draw(rt, "ranges")

		run := func(work func(context.Context, job.Job, span, job.Progress) error) (counts map[string]int64) {
			counts = map[string]int64{}
			var ranges []span
			var err error
			for {
				if ranges, _, err = workers.plan(t.Context(), testJob); !errors.Is(err, errKilled) {
					break
				}
			}
			if err != nil {
				rt.Fatal(err)
			}
			for _, r := range ranges {
				s := &saver{r: r, saves: -1, stored: stored}
				for {
					if s.saves = -1; len(killAt) > 0 {
						s.saves, killAt = killAt[0], killAt[1:]
					}
					err := work(t.Context(), testJob, s.r, s)
					if err == nil {
						break
					}
					if !errors.Is(err, errKilled) {
						rt.Fatal(err)
					}
				}
				for name, n := range s.r.counts {
					counts[name] += n
				}
			}
			return counts
		}
		run(workers.build)
		for sweeps := 1; ; sweeps++ {
			if sweeps > 20 {
				// Over an empty store, no request uses up the planned actions.
				actions, killAt = nil, nil
			}
			quiet := len(actions) == 0 && len(killAt) == 0
			if n := run(workers.sweep)[CountBehind]; n == 0 && quiet {
				break
			}
			if sweeps > 200 {
				rt.Fatal("the sweeps do not end")
			}
		}
		if err := w.check(); err != nil {
			slices.SortFunc(w.events, byPosition)
			rt.Fatalf("%v\nevents %v", err, w.events)
		}
	})
}
