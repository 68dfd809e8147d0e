package poll_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// goroutine identifies the calling goroutine by the beginning of its stack trace.
func goroutine() string {
	trace := make([]byte, 32)
	return string(trace[:runtime.Stack(trace, false)])
}

func TestIdleGoroutineTakesTheNextTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := poll.NewPool(1)
		var seen []string
		for range 10 {
			p.Do(func() { seen = append(seen, goroutine()) })
			synctest.Wait()
		}
		p.Stop()
		p.Wait()
		for _, other := range seen {
			if other != seen[0] {
				t.Fatalf("tasks ran in %q and %q", seen[0], other)
			}
		}
	})
}

func TestTasksRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		p := poll.NewPool(2)
		var together sync.WaitGroup
		together.Add(20)
		for range 20 {
			p.Do(func() {
				together.Done()
				together.Wait()
			})
		}
		p.Stop()
		p.Wait()
	})
}

func TestAtMostIdleGoroutinesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const idle = 3
		p := poll.NewPool(idle)
		first, end := sync.Map{}, make(chan struct{})
		for range 20 {
			p.Do(func() {
				first.Store(goroutine(), true)
				<-end
			})
		}
		synctest.Wait()
		close(end)
		synctest.Wait()
		end = make(chan struct{})
		var reused atomic.Int64
		for range 20 {
			p.Do(func() {
				if _, ok := first.Load(goroutine()); ok {
					reused.Add(1)
				}
				<-end
			})
		}
		close(end)
		p.Stop()
		p.Wait()
		if reused.Load() != idle {
			t.Errorf("%d goroutines waited for a task, want %d", reused.Load(), idle)
		}
	})
}

func TestWaitWaitsForTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := poll.NewPool(1)
		ended := false
		p.Do(func() {
			<-time.After(time.Minute)
			ended = true
		})
		p.Stop()
		p.Wait()
		if !ended {
			t.Error("Wait returned before the task")
		}
	})
}
