package operate

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// While a build waits, its reason is repeated instead of the bar of the job that is done.
func TestWatchRepeatsWhatABuildWaitsFor(t *testing.T) {
	t.Parallel()
	var out, bars bytes.Buffer
	b := &catalog.Build{Generation: 2, State: catalog.Verifying, Reason: "3 are parked"}
	b.Jobs.Verify = "j"
	w := Watch{
		Name: "orders", Out: &out, bar: newProgress(&bars, false, "orders", "events"),
		Entry: func(context.Context) (*catalog.Entry, error) { return &catalog.Entry{Building: b}, nil },
		Job: func(context.Context, string) (job.Job, error) {
			return job.Job{ID: "j", State: job.Done, Total: 1}, nil
		},
	}
	const line = "generation 2 of projection orders is verifying: 3 are parked\n"
	for _, ago := range []time.Duration{0, lineEvery, lineEvery, 0} {
		w.bar.shown = time.Now().Add(-ago)
		if done, err := w.look(t.Context()); done || err != nil {
			t.Fatalf("%t, %v", done, err)
		}
	}
	if out.String() != line || bars.String() != strings.Repeat(line, 2) {
		t.Errorf("printed %q, and as progress %q", &out, &bars)
	}
}
