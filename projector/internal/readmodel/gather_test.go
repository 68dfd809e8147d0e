package readmodel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// groups records the groups that a gatherer sends.
type groups struct {
	mu    sync.Mutex
	start time.Time
	took  time.Duration
	list  []string
	busy  int
	peak  int
}

func (g *groups) carryOut(ctx context.Context, lane string, items []string) []string {
	g.mu.Lock()
	g.list = append(g.list, fmt.Sprintf("%s %s %v", time.Since(g.start), lane, items))
	g.busy++
	g.peak = max(g.peak, g.busy)
	g.mu.Unlock()
	_ = poll.Wait(ctx, g.took)
	g.mu.Lock()
	g.busy--
	g.mu.Unlock()
	answers := make([]string, len(items))
	for i, item := range items {
		answers[i] = "re " + item
	}
	return answers
}

func newGroups(took time.Duration) (*groups, *gatherer[string, string]) {
	seen := &groups{start: time.Now(), took: took}
	g := &gatherer[string, string]{
		lane:     func(s string) string { return s[:1] },
		key:      func(s string) string { return s },
		size:     func(s string) int { return len(s) },
		carryOut: seen.carryOut,
		window:   2 * time.Millisecond, maxItems: 5, maxBytes: 100, maxBusy: 1,
	}
	g.init()
	return seen, g
}

// gathering runs a test with a gatherer in virtual time.
func gathering(t *testing.T, took time.Duration, test func(t *testing.T, seen *groups, g *gatherer[string, string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		seen, g := newGroups(took)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.run(ctx) }()
		test(t, seen, g)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
}

// ask starts a call after a delay.
func ask(t *testing.T, g *gatherer[string, string], after time.Duration, items ...string) func() {
	t.Helper()
	var call sync.WaitGroup
	call.Go(func() {
		<-time.After(after)
		got, err := g.do(t.Context(), items)
		want := make([]string, len(items))
		for i, item := range items {
			want[i] = "re " + item
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: got %v, %v", items, got, err)
		}
	})
	return call.Wait
}

func TestSingleItemIsSentAtOnce(t *testing.T) {
	t.Parallel()
	gathering(t, 10*time.Millisecond, func(t *testing.T, seen *groups, g *gatherer[string, string]) {
		t.Helper()
		for range 3 {
			ask(t, g, 0, "a1")()
		}
		if want := []string{"0s a [a1]", "10ms a [a1]", "20ms a [a1]"}; !slices.Equal(seen.list, want) {
			t.Errorf("%v", seen.list)
		}
	})
}

// Not parallel: with one processor, the order in which goroutines run is known, except for rare
// preemptions.
func TestCallersThatAreReadyToRunJoinTheGroup(t *testing.T) { //nolint:paralleltest // see above
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 20
	together := 0
	for range rounds {
		gathering(t, 10*time.Millisecond, func(t *testing.T, seen *groups, g *gatherer[string, string]) {
			t.Helper()
			waits := []func(){ask(t, g, 0, "a1"), ask(t, g, 0, "a2"), ask(t, g, 0, "a3")}
			for _, wait := range waits {
				wait()
			}
			if len(seen.list) == 1 {
				together++
			}
		})
	}
	if together < rounds/2 {
		t.Errorf("three callers shared a group in %d of %d rounds", together, rounds)
	}
}

func TestConcurrentItemsAreGrouped(t *testing.T) {
	t.Parallel()
	gathering(t, 10*time.Millisecond, func(t *testing.T, seen *groups, g *gatherer[string, string]) {
		t.Helper()
		// The first item is sent alone. The later ones are grouped behind it and sent as
		// soon as possible.
		waits := []func(){ask(t, g, 0, "a1")}
		for i := 2; i <= 5; i++ {
			waits = append(waits, ask(t, g, time.Duration(i)*time.Millisecond, fmt.Sprintf("a%d", i)))
		}
		// The last group had four items, so three wait the window for a fourth.
		waits = append(waits, ask(t, g, 25*time.Millisecond, "a6"), ask(t, g, 25*time.Millisecond+100, "a7"), ask(t, g, 26*time.Millisecond, "a8"))
		// The last group had three items, so three are sent as soon as they are there.
		for i := range 3 {
			waits = append(waits, ask(t, g, 50*time.Millisecond+time.Duration(i)*time.Microsecond, fmt.Sprintf("a%d", 10+i)))
		}
		for _, wait := range waits {
			wait()
		}
		if want := []string{"0s a [a1]", "10ms a [a2 a3 a4 a5]", "27ms a [a6 a7 a8]", "50.002ms a [a10 a11 a12]"}; !slices.Equal(seen.list, want) {
			t.Errorf("%v", seen.list)
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	gathering(t, time.Millisecond, func(t *testing.T, seen *groups, g *gatherer[string, string]) {
		t.Helper()
		g.maxBytes = 10
		wait := ask(t, g, 0, "a1", "a2", "a3", "a4", "a5", "a6", "along-long-long", "ashort")
		wait()
		if want := []string{"0s a [a1 a2 a3 a4 a5]", "1ms a [a6]", "2ms a [along-long-long]", "3ms a [ashort]"}; !slices.Equal(seen.list, want) {
			t.Errorf("%v", seen.list)
		}
	})
}

func TestNoKeyTwiceInAGroup(t *testing.T) {
	t.Parallel()
	gathering(t, time.Millisecond, func(t *testing.T, seen *groups, g *gatherer[string, string]) {
		t.Helper()
		ask(t, g, 0, "a1", "a1", "a2", "a1", "b1")()
		a := slices.DeleteFunc(slices.Clone(seen.list), func(s string) bool { return s == "0s b [b1]" })
		if want := []string{"0s a [a1 a2]", "1ms a [a1]", "2ms a [a1]"}; !slices.Equal(a, want) || len(a) == len(seen.list) {
			t.Errorf("%v", seen.list)
		}
	})
}

// While a server hangs, the queue must not fill with items whose callers have stopped
// waiting and asked again.
func TestCancelledItemIsNotSent(t *testing.T) {
	t.Parallel()
	gathering(t, 10*time.Millisecond, func(t *testing.T, seen *groups, g *gatherer[string, string]) {
		t.Helper()
		g.maxBytes = 6
		first := ask(t, g, 0, "a1")
		<-time.After(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := g.do(ctx, []string{"a2", "a3", "b2"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave up with %v", err)
		}
		last := ask(t, g, 0, "a4", "a5", "a6")
		first()
		last()
		// The whole queue is free again.
		ask(t, g, 0, "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")()
		want := []string{"0s a [a1]", "1ms b [b2]", "10ms a [a4 a5 a6]", "20ms c [c1 c2 c3]", "30ms c [c4 c5 c6]", "40ms c [c7 c8]"}
		if !slices.Equal(seen.list, want) {
			t.Errorf("%v", seen.list)
		}
	})
}

func TestGathererEndsWithItsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, g := newGroups(time.Hour)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- g.run(ctx) }()
		calls := make(chan error)
		for _, item := range []string{"a1", "a2", "a3"} {
			go func() {
				_, err := g.do(t.Context(), []string{item})
				calls <- err
			}()
			synctest.Wait()
		}
		impatient, giveUp := context.WithTimeout(t.Context(), time.Second)
		defer giveUp()
		if _, err := g.do(impatient, []string{"a4"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave up with %v", err)
		}
		stopped := errors.New("stopped")
		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("run ended with %v", err)
		}
		closed := 0
		for range 3 {
			if err := <-calls; errors.Is(err, ErrClosed) {
				closed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if closed != 2 {
			t.Errorf("%d calls were closed", closed)
		}
		if _, err := g.do(t.Context(), []string{"a5"}); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if got, err := g.do(t.Context(), nil); got != nil || err != nil {
			t.Errorf("nothing gave %v, %v", got, err)
		}
	})
}
