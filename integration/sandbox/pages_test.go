package sandbox

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestViewShowsTheStatusPageOfAReplacedService checks that the view prints each address once.
func TestViewShowsTheStatusPageOfAReplacedService(t *testing.T) {
	t.Parallel()
	const before, after = "http://127.0.0.1:1/status", "http://127.0.0.1:2/status"
	status := func(elapsed time.Duration, url string) Status {
		return Status{Phase: phaseRunning, Elapsed: elapsed, Pages: []Page{{Service: "projector-0", URL: url}}}
	}
	var out bytes.Buffer
	view := NewView(&out)
	view.Show(status(time.Second, before))
	view.Show(status(2*time.Second, before))
	view.Show(status(3*time.Second, after))
	for _, line := range []string{"status page of projector-0: " + before, "status page of projector-0: " + after} {
		if n := strings.Count(out.String(), line); n != 1 {
			t.Errorf("%q is printed %d times, want once:\n%s", line, n, out.String())
		}
	}
}
