package app

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/job"
)

func TestSampleIsAShare(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"1%": 0.01, "100%": 1, "0.5": 0.5, "12.5%": 0.125} {
		if got, err := (&verifyCommand{Sample: text}).share(); got != want || err != nil {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0%", "101%", "-1%", "half", "NaN", "%"} {
		if got, err := (&verifyCommand{Sample: text}).share(); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

func TestProgressLineShowsRateAndTimeLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		job  job.Job
		want string
	}{
		{job.Job{State: job.Planning}, "users [------------------------]   0%"},
		{job.Job{State: job.Running, Total: 1000, Counts: map[string]int64{"events": 250}}, "users [######------------------]  25%  250 events, 25/s, 31s left"},
		{job.Job{State: job.Running, Total: 1000, Counts: map[string]int64{"events": 1100}}, "users [########################] 100%  1100 events, 110/s"},
		{job.Job{State: job.Running, Ranges: 4, RangesDone: 1}, "users [######------------------]  25%"},
		{job.Job{State: job.Paused, Reason: "too much load"}, "users [------------------------]   0%  paused too much load"},
	} {
		if got := progressLine("users", test.job, "events", 10*time.Second); got != test.want {
			t.Errorf("%+v shows\n%s, want\n%s", test.job, got, test.want)
		}
	}
}
