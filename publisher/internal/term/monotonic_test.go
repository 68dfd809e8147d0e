package term

import (
	"strings"
	"testing"
	"time"
)

// If the silence of a scan were measured by the wall clock, a clock that is set ahead would
// end the process.
func TestSilenceKeepsTheMonotonicClock(t *testing.T) {
	t.Parallel()
	var a alive
	a.answered(time.Now())
	if last := a.last.Load().String(); !strings.Contains(last, " m=") {
		t.Errorf("%s has no monotonic reading", last)
	}
}
