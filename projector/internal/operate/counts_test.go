package operate

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

func TestCountsHaveTheRightNoun(t *testing.T) {
	t.Parallel()
	of := map[string]int64{history.CountAggregates: 1, history.CountEvents: 1}
	if got := counts(job.Job{Counts: of}); got != "1 aggregate, 1 event" {
		t.Errorf("a job has %q", got)
	}
	if got := new(verifyCommand).summary(verified{State: job.Done, Counts: of}); !strings.Contains(got, ": 1 aggregate, 1 event: every") {
		t.Errorf("a verification has %q", got)
	}
	alone := verified{State: job.Done, Counts: map[string]int64{history.CountAggregates: 1}}
	if got := new(verifyCommand).summary(alone); !strings.Contains(got, ": 1 aggregate: every") {
		t.Errorf("a verification of one aggregate has %q", got)
	}
	for want, got := range map[string]string{"2 events": counted(2, "events"), "1 behind": counted(1, "behind")} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
