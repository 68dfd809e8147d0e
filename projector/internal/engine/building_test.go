package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// breakShadow makes the shadow collection fail.
func (b *bench) breakShadow(how string) {
	switch how {
	case "load":
		b.down = map[string]error{shadow: errTrouble}
	case "write", "conflict":
		status := map[string]model.Status{"write": model.Unknown, "conflict": model.Conflict}[how]
		b.onWrite = func(_ int, w model.Write) *model.Written {
			if w.Generation == 2 {
				return &model.Written{Status: status, Err: errTrouble}
			}
			return nil
		}
	}
}

// TestEventIsSettledWhenBothGenerationsHaveIt checks that a collection that fails for the
// generation that is being built does not keep the live one from being written. While the
// generation defers, its job folds the event; otherwise the event is offered again, until it is
// written or its aggregate is parked there.
func TestEventIsSettledWhenBothGenerationsHaveIt(t *testing.T) {
	t.Parallel()
	for broken, reason := range map[string]projection.Reason{"load": projection.ReasonUnavailable, "write": projection.ReasonUnavailable, "conflict": projection.ReasonConflict} {
		b := newRebuild(t, true)
		b.breakShadow(broken)
		b.process(t, events(t, "one", "1 Add"), fresh, "done")
		b.expectMarks(t, 1, 0)

		b = newRebuild(t, false)
		b.breakShadow(broken)
		results, _ := b.Process(t.Context(), events(t, "one", "1 Add"), fresh)
		// A conflict shows that the store answers, so it parks at once.
		if conflict := broken == "conflict"; (verdicts(results) == "done") != conflict || len(b.parking.parked) > 0 != conflict {
			t.Errorf("%s: %s, parked %v", broken, verdicts(results), b.parking.parked)
		}
		b.expectMarks(t, 1, 0)
		b.process(t, events(t, "one", "1 Add"), again, "done")
		if cause := b.parking.parked[building]; len(b.parking.parked) != 1 || cause == nil || cause.EventID != 1 || cause.Reason != reason {
			t.Errorf("%s: parked %v", broken, b.parking.parked)
		}
		b.expectMarks(t, 1, 0)
	}
}

// TestLiveGenerationDoesNotWaitForTheNextOne checks that the slower generation delays only the
// settlement.
func TestLiveGenerationDoesNotWaitForTheNextOne(t *testing.T) {
	t.Parallel()
	for slow, want := range map[int64]int64{1: 2, 2: 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newRebuild(t, false)
			b.slow = func(u model.Unit) {
				if u.Generation == slow {
					<-time.After(time.Second)
				}
			}
			b.process(t, events(t, "one", "1 Add"), fresh, "done")
			b.expectMarks(t, 1, 1)
			if first := b.writes[0][0].Generation; first != want {
				t.Errorf("generation %d is slow, and generation %d is written first", slow, first)
			}
		})
	}
}
