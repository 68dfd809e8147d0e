package virtual

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// standstill is the real time without a second of virtual time after which a bubble counts as
// stuck. On a quiet machine such a second takes milliseconds.
const standstill = 5 * time.Minute

// refresh is how long the SDK's goroutine that refreshes a token can outlive its client: until
// the token would end (azservicebus v1.11, internal/sas/sas.go). The SDK leaves some behind if
// concurrent sends attach the links of one sender again (internal/amqpLinks.go, Get).
const refresh = 2 * time.Hour

// Run runs a test in a bubble. Virtual time stands still while a goroutine is busy, or waits
// for something outside of the bubble. If it stands still for too long, Run prints what
// describe says of the bubble and the goroutines that keep the time from advancing, and the
// program ends.
func Run(t *testing.T, describe func() string, test func(t *testing.T)) {
	t.Helper()
	watchdog := time.AfterFunc(standstill, func() {
		fmt.Fprintf(os.Stderr, "%s\nhas stood still for %v of real time; what is busy:\n\n%s\n", describe(), standstill, busy())
		os.Exit(1)
	})
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(refresh) }) // the last one to run
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go func() {
			for ctx.Err() == nil {
				watchdog.Reset(standstill)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		}()
		test(t)
	})
}

// busy returns the stacks of the goroutines in bubbles that do not wait for others in theirs.
func busy() string {
	all := make([]byte, 64<<20)
	all = all[:runtime.Stack(all, true)]
	var text strings.Builder
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		state, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(state, "synctest bubble") && !strings.Contains(state, "(durable)") {
			text.WriteString(stack + "\n\n")
		}
	}
	return text.String()
}
