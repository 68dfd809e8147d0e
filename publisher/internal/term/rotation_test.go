package term

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

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

// TestNothingIsLostInRotations rotates the collection at random moments: while a term runs,
// and repeatedly while none does. What was inserted before a rotation is then only in the
// oplog.
func TestNothingIsLostInRotations(t *testing.T) {
	t.Parallel()
	checkTerms(t, 13, 6, rotating)
}

func rotating(t *testing.T, random *rand.Rand, terms int) error {
	t.Helper()
	s := newSetup(t, rand.New(rand.NewPCG(random.Uint64(), 1)))
	next := map[string]int64{}
	insert := func(n int) {
		for range n {
			aggregate := string(rune('a' + random.IntN(5)))
			next[aggregate]++
			s.store.insert(aggregate, next[aggregate], random.IntN(25) == 0)
		}
	}
	insert(random.IntN(30))
	lead := func(d time.Duration, how func(*leading) func()) error {
		term := s.lead(t)
		pass(d)
		if err := term.end(how(term)); err != nil {
			return fmt.Errorf("term ended with %w", err)
		}
		return nil
	}
	stopping := func(term *leading) func() { return term.stop }
	if err := lead(10*time.Second, stopping); err != nil {
		return err
	}
	for range terms {
		// A collection that loses its name before its scan has ended cannot be read any more.
		for range random.IntN(3) {
			insert(random.IntN(10))
			if s.checkpoint.field("recovery") == nil {
				s.store.rotate()
			}
		}
		insert(random.IntN(10))
		how := stopping
		if random.IntN(2) == 0 {
			how = func(term *leading) func() { return term.abort }
		}
		if err := lead(time.Duration(random.IntN(3000))*time.Millisecond, how); err != nil {
			return err
		}
	}
	term := s.lead(t)
	pass(time.Minute)
	s.store.rotate()
	insert(10)
	pass(time.Minute)
	if err := term.end(term.stop); err != nil {
		return fmt.Errorf("last term ended with %w", err)
	}
	return s.topic.check(s.store, s.quarantine)
}

// TestScanDoesNotEndWithTheNameOfItsCollection renames the collection away while it is scanned:
// it then reads as empty, and the log must say what is not published.
func TestScanDoesNotEndWithTheNameOfItsCollection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		var log bytes.Buffer
		s.runner.options.Logger = zerolog.New(zerolog.SyncWriter(&log))
		s.fill(20, 20)
		absent := func(absent bool) {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			s.store.absent = absent
		}
		term := s.lead(t)
		pass(time.Second)
		absent(true)
		s.store.rotate()
		pass(2 * time.Second)
		absent(false)
		pass(time.Minute)
		if err := term.end(term.stop); err != nil {
			t.Fatal(err)
		}
		if strings.Count(log.String(), "events collection replaced before its scan ended") != 1 {
			t.Errorf("the log is %s", log.String())
		}
	})
}

// The server replaces the collection of a resharded store without an end in the change
// stream. The position is still valid then, but a scan starts over.
func TestCollectionWithAnotherUUIDAndNoEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.fill(20, 20)
		reshard := func() {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			s.store.generation++
			for i := range s.store.log {
				s.store.log[i].generation = s.store.generation
			}
		}
		term := s.lead(t)
		pass(time.Second)
		s.kill(term)
		if _, scanning := s.checkpoint.field("recovery").(bson.M); !scanning {
			t.Fatal("the scan is over")
		}
		reshard()
		s.serve(t, 10*time.Second)
		reshard()
		s.store.insert("a000", 21, false)
		s.serve(t, 10*time.Second)
		s.published(t)
		if scans := testutil.ToFloat64(s.runner.scans.WithLabelValues(scanReplaced)); scans != 1 {
			t.Errorf("%v scans, want one because the first was interrupted", scans)
		}
	})
}
