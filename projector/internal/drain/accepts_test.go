package drain

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The broker demands a wait of 2 s when it throttles, also if another accept has failed for
// another reason a moment before.
func TestBusyAnswerLengthensThePauseOfAnotherFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAcceptLimiter(2)
		failed, busy := enter(t, l), enter(t, l)
		l.failed(failed, 0)
		l.failed(busy, busyWait)
		if l.failures != 1 {
			t.Errorf("%d failures, want accepts that fail together to count as one", l.failures)
		}
		before := time.Now()
		enter(t, l)
		if wait := time.Since(before); wait < busyWait {
			t.Errorf("the next accept begins after %v, want at least %v", wait, busyWait)
		}
	})
}

// A broker that has trouble can answer at once that there is no session. 128 slots must not
// ask it again and again.
func TestBrokerThatDoesNotWaitIsAskedEverLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 128
		l := newAcceptLimiter(slots)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked := make(chan int, slots)
		for range slots {
			go func() {
				n := 0
				for ; ; n++ {
					ticket, err := l.enter(ctx)
					if err != nil {
						break
					}
					<-time.After(time.Millisecond)
					l.none(ticket)
				}
				asked <- n
			}()
		}
		sum := 0
		for range slots {
			sum += <-asked
		}
		if sum < 5 || sum > 100 {
			t.Errorf("the broker was asked %d times in a minute", sum)
		}
		// When it waits again, slots accept as before.
		for range 3 {
			ticket := enter(t, l)
			<-time.After(inVain)
			l.none(ticket)
		}
		if l.failures != 0 || l.waiting.Len() != 0 || l.pending.Len() != 0 {
			t.Errorf("%d failures, %d slots wait, %d accepts", l.failures, l.waiting.Len(), l.pending.Len())
		}
	})
}

// A slot that gives up may have got a ticket at the same moment. Another slot gets it then.
func TestTicketsAreNotLostWithSlotsThatGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAcceptLimiter(8)
		for range 200 {
			held := []ticket{enter(t, l), enter(t, l)}
			ctx, giveUp := context.WithCancelCause(t.Context())
			errStop := errors.New("stop")
			left := make(chan struct{}, 6)
			for range 6 {
				go func() {
					ticket, err := l.enter(ctx)
					if err == nil {
						l.stopped(ticket)
					} else if !errors.Is(err, errStop) {
						t.Errorf("got %v", err)
					}
					left <- struct{}{}
				}()
			}
			synctest.Wait()
			go giveUp(errStop)
			for _, h := range held {
				go l.stopped(h)
			}
			for range 6 {
				<-left
			}
			synctest.Wait()
			if l.pending.Len() != 0 || l.waiting.Len() != 0 {
				t.Fatalf("%d accepts and %d slots are left", l.pending.Len(), l.waiting.Len())
			}
		}
	})
}

func enter(t *testing.T, l *acceptLimiter) ticket {
	t.Helper()
	ticket, err := l.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}
