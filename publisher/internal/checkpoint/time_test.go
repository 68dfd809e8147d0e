package checkpoint_test

import (
	"testing/synctest"
	"time"
)

// pass lets virtual time pass, and waits until the other goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}
