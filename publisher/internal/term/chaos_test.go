package term

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// TestNothingIsLostOrOutOfOrder runs terms that stop or crash at random moments. The event
// store grows, fails and loses its oplog. The broker refuses, drops connections and stores
// late. The terms cover scans, streams and the transitions between them.
func TestNothingIsLostOrOutOfOrder(t *testing.T) {
	t.Parallel()
	checkTerms(t, 7, 6, chaos)
}

// checkTerms runs a scenario in virtual time, with random choices and with 1 to limit terms.
func checkTerms(t *testing.T, stream uint64, limit int, scenario func(t *testing.T, random *rand.Rand, terms int) error) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		terms := rapid.IntRange(1, limit).Draw(rt, "terms")
		var problem error
		synctest.Test(t, func(t *testing.T) { problem = scenario(t, rand.New(rand.NewPCG(seed, stream)), terms) })
		if problem != nil {
			// Log the problem: goroutines run in another order when rapid repeats the run,
			// and then rapid reports a flaky test instead of the problem.
			t.Log(problem)
			rt.Fatal(problem)
		}
	})
}

func chaos(t *testing.T, random *rand.Rand, terms int) error {
	t.Helper()
	s := newSetup(t, rand.New(rand.NewPCG(random.Uint64(), 1)))
	s.topic.faults = true
	s.runner.publishing.Batching = []publish.Batching{publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed}[random.IntN(3)]
	faults := rand.New(rand.NewPCG(random.Uint64(), 2))
	s.store.readFault = func() error {
		if faults.IntN(15) == 0 {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	saves := rand.New(rand.NewPCG(random.Uint64(), 3))
	s.checkpoint.fault = func() error {
		if saves.IntN(5) == 0 {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	next := map[string]int64{}
	insert := func(n int) {
		for range n {
			aggregate := string(rune('a' + random.IntN(5)))
			next[aggregate]++
			s.store.insert(aggregate, next[aggregate], random.IntN(25) == 0)
		}
	}
	insert(random.IntN(80))
	for range terms {
		term := s.lead(t)
		for range random.IntN(6) {
			pass(time.Duration(random.IntN(600)) * time.Millisecond)
			insert(random.IntN(10))
			if random.IntN(8) == 0 {
				s.store.trim(random.IntN(5))
			}
		}
		how := term.stop
		if random.IntN(2) == 0 {
			how = term.abort
		}
		if err := term.end(how); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errOplogTooShort) {
			return fmt.Errorf("term ended with %w", err)
		}
		insert(random.IntN(10))
		if random.IntN(3) == 0 {
			s.store.trim(random.IntN(20))
		}
	}
	s.topic.faults = false
	s.store.readFault, s.checkpoint.fault = nil, nil
	// Losses before the last terms may end the first of them.
	for last := range 2 {
		term := s.lead(t)
		pass(time.Minute)
		if err := term.end(term.stop); err != nil && (last > 0 || !errors.Is(err, errOplogTooShort)) {
			return fmt.Errorf("last term ended with %w", err)
		}
	}
	s.topic.late.Wait()
	return s.topic.check(s.store, s.quarantine)
}
