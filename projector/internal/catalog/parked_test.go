package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// verifyWithParked ends a verification while two aggregates are parked, and returns the build
// that they hold back.
func (r *run) verifyWithParked() *catalog.Build {
	r.settle(catalog.Verifying)
	r.parked = 2
	r.pass(time.Second)
	r.work(0, 0)
	r.pass(2 * time.Second)
	return r.entry().Building
}

func TestParkedAggregatesPreventThePromotion(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		b := r.verifyWithParked()
		if b.State != catalog.Verifying || b.Parked != 2 || !strings.Contains(b.Reason, "parked in the new generation (2)") || !strings.Contains(b.Reason, "such as ada (expression)") {
			t.Fatalf("the generation is %s: %s", b.State, b.Reason)
		}
		before := b.Round
		r.settle("")
		if e := r.entry(); e.Live.Generation != 2 {
			t.Errorf("not promoted when they are healed: %+v", e.Building)
		}
		if _, again := r.jobs["users.2.verify-2"]; !again {
			t.Errorf("what was healed after round %d was not verified", before)
		}
	})
}

// Only some of the last jobs of a projection are kept. A generation that is held back is verified again if
// the job of its verification is not among them any more.
func TestVerificationThatIsNoLongerKeptIsRepeated(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.jobs[r.verifyWithParked().Jobs.Verify] = deleted
		r.settle("")
		if e := r.entry(); e.Live.Generation != 2 {
			t.Errorf("not promoted: %+v", e.Building)
		}
	})
}

// Aggregates that were parked while the verification looked, and no longer are, were not verified.
func TestAggregatesThatWereLeftOutAreVerified(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.Verifying)
		r.pass(time.Second)
		r.parked = 2
		r.work(0, 0)
		r.parked = 0
		r.pass(2 * time.Second)
		if _, again := r.jobs["users.2.verify-2"]; !again {
			t.Errorf("not verified again: %+v", r.entry().Building)
		}
	})
}

// An aggregate that was parked for a moment after the verification has looked at it was not left
// out, so it costs no further verification.
func TestAggregateThatIsParkedBrieflyDelaysThePromotion(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.Verifying)
		r.pass(time.Second)
		r.work(0, 0)
		r.parked = 1
		r.pass(3 * time.Second)
		if b := r.entry().Building; b == nil || b.State != catalog.Verifying || b.Parked != 0 || !strings.Contains(b.Reason, "parked in the new generation (1)") {
			t.Fatalf("the generation is %+v", b)
		}
		round := r.entry().Building.Round
		r.parked = 0
		r.pass(5 * time.Second)
		if b := r.entry().Building; b == nil || b.State != catalog.Promoting || b.Round != round {
			t.Errorf("the generation is %+v", b)
		}
	})
}

func TestAllowedParkedAggregatesDoNotPreventThePromotion(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.allow(t, catalog.Allowed{Parked: 2})
		r.settle(catalog.Verifying)
		r.parked = 2
		r.pass(time.Second)
		r.work(0, 0)
		r.pass(5 * time.Second)
		if r.state() != catalog.Promoting {
			t.Errorf("the generation is %s: %s", r.state(), r.entry().Building.Reason)
		}
	})
}

// An operator allows parked aggregates after a while. Those that were healed were in no
// verification. So the generation is verified again.
func TestGenerationThatWasHeldBackIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	for name, parked := range map[string]int64{"healed": 1, "allowed": 2} {
		inSimulation(t, func(r *run) {
			b := r.verifyWithParked()
			if b.Parked != 2 {
				t.Fatalf("the generation is %s: %s", b.State, b.Reason)
			}
			round := b.Round
			r.parked = parked
			r.allow(t, catalog.Allowed{Parked: 2})
			for range 10 {
				r.pass(time.Second)
				r.work(0, 0)
			}
			if _, again := r.jobs[fmt.Sprintf("users.2.verify-%d", round+1)]; !again {
				t.Errorf("%s: not verified again after round %d", name, round)
			}
			r.settle("")
			if r.entry().Live.Generation != 2 {
				t.Errorf("%s: not promoted: %+v", name, r.entry().Building)
			}
		})
	}
}
