package sbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

const countInterval = 30 * time.Second

// line is a connection of lines.
type line struct{ *lines }

func (l line) Close(context.Context) error {
	l.closed++
	return nil
}

// lines counts the connections that were opened and closed.
type lines struct{ dialed, closed int }

func (l *lines) dial() (line, error) {
	l.dialed++
	return line{l}, nil
}

// counting is a running counter.
type counting struct {
	lines
	*sbus.Counter[line, int]
	mu sync.Mutex
	// count is the next count, or err if it is set.
	count int
	err   error
	// begun are the times at which counts have begun, and results how they have ended.
	begun   []time.Time
	results map[sbus.CountResult]int
	log     bytes.Buffer
	stop    func()
}

func startCounting(t *testing.T, change func(*counting, *sbus.Counting[line, int])) *counting {
	t.Helper()
	c := &counting{results: make(map[sbus.CountResult]int)}
	o := sbus.Counting[line, int]{
		Dial: c.dial, Interval: countInterval, What: "pebbles", Until: "Nobody plays until then", Logger: zerolog.New(&c.log),
		Count: func(context.Context, line) (int, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.begun = append(c.begun, time.Now())
			return c.count, c.err
		},
		Ended: func(result sbus.CountResult) { c.results[result]++ },
	}
	change(c, &o)
	c.Counter = sbus.NewCounter(o)
	stop := testkit.Start(t, c.Run)
	c.stop = func() {
		stop()
		if c.dialed != c.closed {
			t.Errorf("%d connections were opened, %d closed", c.dialed, c.closed)
		}
	}
	return c
}

// next sets what the next counts return.
func (c *counting) next(count int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count, c.err, c.begun = count, err, nil
}

// shows expects the last count; "absent" means that it is stale.
func (c *counting) shows(t *testing.T, want string) {
	t.Helper()
	got := "absent"
	if count, _, fresh := c.Last(); fresh {
		got = fmt.Sprint(count)
	}
	if got != want {
		t.Errorf("the count is %s, want %s", got, want)
	}
}

func TestCountIsShownForAWhileAfterFailuresAndThenAbsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("not now")
		c := startCounting(t, func(c *counting, _ *sbus.Counting[line, int]) { c.count, c.err = 7, failure })
		defer c.stop()
		testkit.Pass(countInterval)
		c.shows(t, "absent")
		c.next(7, nil)
		testkit.Pass(2 * countInterval)
		c.shows(t, "7")

		c.next(8, failure)
		testkit.Pass(3*countInterval - countInterval*5/4 - time.Second)
		c.shows(t, "7")
		testkit.Pass(12 * countInterval)
		c.shows(t, "absent")
		if c.results[sbus.CountFailed] < 10 {
			t.Errorf("counted %v", c.results)
		}
		c.next(8, nil)
		testkit.Pass(2 * countInterval)
		c.shows(t, "8")
		if n := strings.Count(c.log.String(), "pebbles not counted; retrying. Nobody plays until then"); n != 2 {
			t.Errorf("%d warnings, want one for each time that it began to fail:\n%s", n, &c.log)
		}
		if n := strings.Count(c.log.String(), "pebbles counted again"); n != 2 {
			t.Errorf("%d times it was said to work again, want 2:\n%s", n, &c.log)
		}
	})
}

func TestCounterWaitsAfterFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err                   error
		interval, failed      time.Duration
		first, longest, after time.Duration
	}{
		"busy, short interval": {condition("com.microsoft:server-busy"), time.Second, 0, 10 * time.Second, 5 * time.Minute, time.Second},
		"busy, usual interval": {condition("com.microsoft:server-busy"), countInterval, 0, countInterval, 5 * time.Minute, countInterval},
		"busy, long interval":  {condition("com.microsoft:server-busy"), time.Hour, 0, time.Hour, time.Hour, time.Hour},
		"other failures":       {errors.New("unauthorized"), countInterval, time.Minute, time.Minute, time.Minute, countInterval},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := startCounting(t, func(c *counting, o *sbus.Counting[line, int]) {
					c.err, o.Interval, o.FailedWait = test.err, test.interval, test.failed
				})
				defer c.stop()
				testkit.Pass(10 * max(test.interval, 5*time.Minute))
				want := test.first
				for i := range len(c.begun) - 1 {
					if wait := c.begun[i+1].Sub(c.begun[i]); wait < want*3/4 || wait > want*5/4 {
						t.Errorf("wait %d is %s, want about %s", i+1, wait, want)
					}
					want = min(2*want, test.longest)
				}
				if want != test.longest || len(c.begun) < 5 {
					t.Errorf("only %d counts", len(c.begun))
				}
				c.next(1, nil)
				testkit.Pass(2 * test.longest)
				c.next(1, nil)
				testkit.Pass(4 * test.after)
				if len(c.begun) < 3 {
					t.Errorf("%d counts in four intervals after the failures", len(c.begun))
				}
			})
		})
	}
}

func TestHangingCountEndsWithItsTimeoutOrTheCounter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := startCounting(t, func(c *counting, o *sbus.Counting[line, int]) {
			o.Interval = time.Second
			o.Count = func(ctx context.Context, _ line) (int, error) {
				c.begun = append(c.begun, time.Now())
				<-ctx.Done()
				return 0, ctx.Err()
			}
		})
		testkit.Pass(30*time.Second + 500*time.Millisecond) // The second count begins later.
		if c.results[sbus.CountFailed] != 1 || !strings.Contains(c.log.String(), "the count has taken too long") {
			t.Errorf("counted %v, the log is %s", c.results, &c.log)
		}
		testkit.Pass(time.Second)
		begin := time.Now()
		c.stop()
		if took := time.Since(begin); took != 0 || len(c.begun) != 2 || c.results[sbus.CountFailed] != 1 {
			t.Errorf("stopping took %s, %d counts have begun, counted %v", took, len(c.begun), c.results)
		}
	})
}
