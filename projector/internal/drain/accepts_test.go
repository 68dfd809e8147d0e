package drain

import (
	"testing"
	"testing/synctest"
)

// The broker demands a wait of 2 s when it throttles, also if another accept has failed for
// another reason a moment before.
func TestBusyAnswerLengthensThePauseOfAnotherFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAcceptLimiter(2)
		failed, _, _ := l.try()
		busy, _, _ := l.try()
		l.failed(failed, 0)
		l.failed(busy, busyWait)
		if _, wait, _ := l.try(); wait < busyWait {
			t.Errorf("the next accept begins after %v, want at least %v", wait, busyWait)
		}
		if l.failures != 1 {
			t.Errorf("%d failures, want accepts that fail together to count as one", l.failures)
		}
	})
}
