package sandbox

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestViewsShowTheStatusPageOfAReplacedService checks that both views show the present
// addresses, and that the plain one prints each address once.
func TestViewsShowTheStatusPageOfAReplacedService(t *testing.T) {
	t.Parallel()
	const before, after = "http://127.0.0.1:1/status", "http://127.0.0.1:2/status"
	status := func(elapsed time.Duration, url string) Status {
		return Status{Phase: phaseRunning, Elapsed: elapsed, Pages: []Page{{Service: "projector-0", URL: url}}}
	}
	var out bytes.Buffer
	plain := NewPlainView(&out)
	plain.Show(status(time.Second, before))
	plain.Show(status(2*time.Second, before))
	plain.Show(status(3*time.Second, after))
	for _, line := range []string{"status page of projector-0: " + before, "status page of projector-0: " + after} {
		if n := strings.Count(out.String(), line); n != 1 {
			t.Errorf("%q is printed %d times, want once:\n%s", line, n, out.String())
		}
	}

	var model screenModel
	for range 2 * maxNotes {
		next, _ := model.Update(note("something happened"))
		model = next.(screenModel)
	}
	next, _ := model.Update(status(time.Second, after))
	if shown := next.(screenModel).View().Content; !strings.Contains(shown, after) {
		t.Errorf("after many notes the screen does not show %s:\n%s", after, shown)
	}
}
