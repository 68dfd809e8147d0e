package history

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceBoundsTheRateOfAllWorkers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ rate, workers, pages, events int }{
		"many pages": {1000, 4, 10, 512},
		// A page may have more events than a low rate allows in a second.
		"a page larger than the rate": {10, 1, 1, 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPace(PaceOptions{Rate: float64(test.rate)})
			start := time.Now()
			var workers sync.WaitGroup
			for range test.workers {
				workers.Go(func() {
					for range test.pages {
						end, err := p.Begin(t.Context(), test.events)
						if err != nil {
							t.Error(err)
							return
						}
						end()
					}
				})
			}
			workers.Wait()
			// The work of the first second may be done at once.
			want := time.Duration(test.workers*test.pages*test.events)*time.Second/time.Duration(test.rate) - time.Second
			if took := time.Since(start); took < want || took > want+time.Second {
				t.Errorf("%s: took %v, want %v", name, took, want)
			}
		})
	}
}

func TestPaceYieldsToLiveEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var activity Activity
		p := NewPace(PaceOptions{Live: &activity})
		const page = 10 * time.Millisecond
		// work returns how long workers work within some seconds, and how many of them
		// work concurrently.
		work := func(during time.Duration, live bool) (worked time.Duration, atOnce int) {
			ctx, cancel := context.WithTimeout(t.Context(), during)
			defer cancel()
			var mu sync.Mutex
			var workers sync.WaitGroup
			now := 0
			for range 3 {
				workers.Go(func() {
					for {
						if live {
							activity.Begin()
							activity.End()
						}
						end, err := p.Begin(ctx, 1)
						if err != nil {
							return
						}
						mu.Lock()
						now++
						atOnce = max(atOnce, now)
						mu.Unlock()
						time.Sleep(page) //nolint:forbidigo // the work, in synthetic time
						mu.Lock()
						now--
						worked += page
						mu.Unlock()
						end()
						if ctx.Err() != nil {
							return
						}
					}
				})
			}
			workers.Wait()
			return worked, atOnce
		}
		if worked, atOnce := work(10*time.Second, true); worked < 2*time.Second || worked > 2600*time.Millisecond || atOnce != 1 {
			t.Errorf("%v of 10 s worked while live events flow, %d at once; want a quarter, one at once", worked, atOnce)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // live events have ended, in synthetic time
		if worked, atOnce := work(10*time.Second, false); worked < 29*time.Second || atOnce != 3 {
			t.Errorf("%v of 3×10 s worked without live events, %d at once", worked, atOnce)
		}
	})
}

// If a job slows the store down, a live event can take longer than a second. The job must not
// become faster then.
func TestLiveEventsCountAsLongAsTheyWaitForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var activity Activity
		active := func(want bool, when string) {
			t.Helper()
			if activity.Active() != want {
				t.Errorf("active %s: %t, want %t", when, !want, want)
			}
		}
		active(false, "before the first event")
		activity.Begin()
		<-time.After(10 * activeFor)
		active(true, "while an event waits")
		activity.Begin()
		activity.End()
		<-time.After(2 * activeFor)
		active(true, "after another event has ended")
		activity.End()
		<-time.After(activeFor - activityStep)
		active(true, "within a second of the last event")
		<-time.After(2 * activityStep)
		active(false, "a second after the last event")
	})
}

func TestPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var activity Activity
		activity.Begin()
		activity.End()
		for name, p := range map[string]*Pace{"rate": NewPace(PaceOptions{Rate: 1}), "live": NewPace(PaceOptions{Live: &activity})} {
			ctx, cancel := context.WithCancelCause(t.Context())
			end, err := p.Begin(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Millisecond, func() { cancel(errKilled) })
			if _, err := p.Begin(ctx, 100); !errors.Is(err, errKilled) {
				t.Errorf("%s: ended with %v", name, err)
			}
			end()
		}
	})
}
