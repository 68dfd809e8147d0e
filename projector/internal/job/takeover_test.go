package job_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// A range of a dead process is open again at once, and later after each further death without
// progress. So is the planning of a job. Other ranges and running jobs stay as they are.
func TestClaimsOfDeadProcessesAreReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		s.planned(t, job.Job{ID: "a", Kind: job.Verify, Projection: "users"}, 2)
		newJob(t, s, "b", job.Verify)
		living := s.claim(t, "a", "living")
		taken := func(id string) time.Duration {
			t.Helper()
			for begun := time.Now(); ; testkit.Pass(100 * time.Millisecond) {
				j, err := s.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				_, ok, err := s.Claim(t.Context(), j, "dead", time.Minute)
				if err != nil || time.Since(begun) > time.Minute {
					t.Fatalf("no claim of %s after %v: %v", id, time.Since(begun), err)
				}
				if ok {
					return time.Since(begun)
				}
			}
		}
		for _, id := range []string{"a", "b"} {
			taken(id)
			for deaths, limit := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
				if returned, err := s.Abandon(t.Context(), []string{"dead"}); err != nil || returned == 0 {
					t.Fatalf("%d claims returned: %v", returned, err)
				}
				if wait := taken(id); wait < limit/2 || wait > limit+100*time.Millisecond {
					t.Errorf("%s is claimed %v after death %d, want at most %v", id, wait, deaths+1, limit)
				}
			}
		}
		if err := s.Keep(t.Context(), living, time.Minute); err != nil {
			t.Errorf("a living process has lost its range: %v", err)
		}
	})
}
