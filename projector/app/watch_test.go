package app

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// printed collects the output of a command.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// watch follows the rebuild of a cluster as on a terminal; bars gets the progress bars. end
// waits for the end, and returns the printed lines and the error.
func (c *cluster) watch(bars *printed) (end func() (lines string, err error)) {
	var out printed
	w := operate.Watch{
		Name: "visits", Every: 10 * time.Millisecond, Out: &out, Bars: bars, Terminal: true,
		Entry: func(context.Context) (*catalog.Entry, error) { return c.entry(), nil },
		Job:   c.jobs.Get,
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(c.t.Context()) }()
	return func() (string, error) {
		err := <-ended
		return out.String(), err
	}
}

// An operator sees each state of a rebuild, the rate and the time left, and how it ended.
func TestWatchFollowsARebuildToItsEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(1500)...))
	if lines, err := c.watch(new(printed))(); err != nil || lines != "projection visits builds no generation; generation 1 is live\n" {
		t.Errorf("without a rebuild: %q, %v", lines, err)
	}
	p.stop()

	slow := c.pod(300, visits(t, 2))
	second := c.await("generation 2 built", func(e *catalog.Entry) bool { return e.Building != nil }).Building.Generation
	var bars printed
	cancelled := c.watch(&bars)
	bar := regexp.MustCompile(`visits \[#*-+\] +\d+%  \d+ events, \d+/s, (\d+m)?\d+s left`)
	c.await("a bar with the time left", func(*catalog.Entry) bool { return bar.MatchString(bars.String()) })
	by := catalog.Author{At: time.Now()}
	if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) { return catalog.GiveUp(e, by) }); err != nil {
		t.Fatal(err)
	}
	lines, err := cancelled()
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("generation %d of projection visits is not built any more", second)) || !strings.HasPrefix(lines, fmt.Sprintf("generation %d of projection visits is building\n", second)) {
		t.Errorf("cancelled: %q, %v", lines, err)
	}
	slow.stop()

	if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) {
		return catalog.Start(e, e.Pipeline, catalog.Declare(visits(t, 2))[0], 0, by)
	}); err != nil {
		t.Fatal(err)
	}
	live := c.watch(new(printed))
	c.pod(0, visits(t, 2))
	lines, err = live()
	if err != nil || !strings.HasSuffix(lines, fmt.Sprintf("generation %d of projection visits is live\n", c.entry().Live.Generation)) || !strings.Contains(lines, "is verifying\n") {
		t.Errorf("to the end: %q, %v", lines, err)
	}
	c.right(2)

	if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) {
		next, err := catalog.Start(e, e.Pipeline, catalog.Declared{Name: "visits", Definition: e.Live.Definition}, 0, by)
		if err == nil {
			next = catalog.Fail(next, "no reason", by)
		}
		return next, err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.watch(new(printed))(); err == nil || err.Error() != fmt.Sprintf("generation %d of projection visits has failed: no reason", c.entry().Building.Generation) {
		t.Errorf("failed: %v", err)
	}
}
