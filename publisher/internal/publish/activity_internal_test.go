package publish

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestActivityDistinguishesStuckFromWaiting(t *testing.T) {
	t.Parallel()
	const sendTimeout = 30 * time.Second
	answered := func(a *activity) { a.end(a.begin()) }
	for name, test := range map[string]struct {
		each    func(a *activity, second int)
		pending bool
		stuck   bool
	}{
		"nothing to do":             {func(*activity, int) {}, false, false},
		"work that no worker takes": {func(*activity, int) {}, true, true},
		"one call that does not return among many that do": {func(a *activity, second int) {
			if second == 0 {
				a.begin()
			}
			answered(a)
		}, true, true},
		"calls far apart": {func(a *activity, second int) {
			if second%60 == 0 { // as slow as a throttled broker makes them
				answered(a)
			}
		}, true, false},
		"a quarantine whose database is down": {func(a *activity, second int) {
			if second == 0 {
				a.store(1)
			}
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newActivity(sendTimeout)
				stuck := false
				for second := range 290 {
					test.each(a, second)
					<-time.After(time.Second)
					stuck = a.stuck(time.Now(), test.pending)
				}
				if stuck != test.stuck {
					t.Errorf("stuck is %v, want %v", stuck, test.stuck)
				}
			})
		})
	}
}
