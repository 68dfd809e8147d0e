package virtual

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// standstill is the real time after which a bubble counts as stuck. Most take some seconds,
// and the longest a minute on a busy machine.
const standstill = 5 * time.Minute

// Run runs a test in a bubble. Virtual time stands still while a goroutine is busy, or waits
// for something outside of the bubble. If the bubble does not end, Run prints what describe
// says of it and the goroutines that keep the time from advancing, and the program ends.
func Run(t *testing.T, describe func() string, test func(t *testing.T)) {
	t.Helper()
	watchdog := time.AfterFunc(standstill, func() {
		fmt.Fprintf(os.Stderr, "%s\nhas not ended after %v of real time; what is busy:\n\n%s\n", describe(), standstill, busy())
		os.Exit(1)
	})
	defer watchdog.Stop()
	synctest.Test(t, test)
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
