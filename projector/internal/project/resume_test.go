package project_test

import (
	"context"
	"errors"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// suspended returns aggregate one of counts, acknowledged up to a head.
func suspended(head int64) project.Suspended {
	return project.Suspended{Projection: "counts", AggregateID: "one", Head: head}
}

// resume resumes a unit, and expects the watermark that it reaches and the reason why it
// stops there.
func (b *bench) resume(t *testing.T, s project.Suspended, watermark int64, reason project.Reason) {
	t.Helper()
	r, err := b.Resume(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := project.Reason("")
	if r.Cause != nil {
		got = r.Cause.Reason
	}
	if r.Watermark != watermark || got != reason {
		t.Errorf("came to %d, %v; want %d, %q", r.Watermark, r.Cause, watermark, reason)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	all := events(t, "one", "1 Add", "2 Add", "3 Other", "4 Add", "5 Add")
	b.process(t, all[:1], project.Hold, "done")
	// At first the gap persists.
	b.history.events = []*event.Event{all[1], all[3], all[4]}
	b.resume(t, suspended(4), 2, "")
	b.resume(t, suspended(4), 2, project.ReasonMissing)
	b.history.events = all
	b.resume(t, suspended(4), 4, "")
	b.expect(t, "counts", "one", 4, `{"ids":[1,2,4],"n":3}`)
	// The aggregate's read model in another projection does not change.
	b.expect(t, "things", "one", 1, `{"last":1}`)
	asked := b.history.asked
	b.resume(t, suspended(4), 4, "")
	if b.history.asked != asked {
		t.Error("the event store was read for a unit that is caught up")
	}
}

func TestResumeReportsStoreErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Add")
	b.onLoad = func(int) error { return errTrouble }
	b.resume(t, suspended(2), 0, project.ReasonUnavailable)
	b.onLoad = nil
	b.history.fail = errTrouble
	b.resume(t, suspended(2), 0, project.ReasonUnavailable)
	b.onWrite = failing(model.Unknown)
	b.resume(t, suspended(2), 0, project.ReasonUnavailable)
	b.onWrite = failing(model.Conflict)
	b.resume(t, suspended(2), 0, project.ReasonUnavailable)
	if len(b.parking.parked) > 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
	final := suspended(2)
	final.Final = true
	b.resume(t, final, 0, project.ReasonRejected)
	b.expectParked(t, "counts", "one", project.ReasonRejected, 1, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := b.Resume(ctx, suspended(2)); !errors.Is(err, stopped) {
		t.Errorf("error %v", err)
	}
}

// TestResumeParksAtAPoisonEvent checks that an event which can never be applied parks the
// unit for that reason, after the events before it were applied.
func TestResumeParksAtAPoisonEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Bad", "4 Add")
	b.resume(t, suspended(4), 2, project.ReasonExpression)
	b.expectParked(t, "counts", "one", project.ReasonExpression, 3, 4)
	b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)
}

// TestResumeWhereIDsOnlyIncrease checks that missing ids are no gap if ids only increase,
// and that the unit's marker delays nothing.
func TestResumeWhereIDsOnlyIncrease(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections, func(o *project.Options) { o.Sequence = event.SequenceIncreasing })
	b.history.events = events(t, "one", "10 Add", "20 Add", "40 Add")
	b.parking.parked[unitOf("counts", "one")] = &project.Error{EventID: 10, Reason: project.ReasonUnavailable}
	b.resume(t, suspended(40), 40, "")
	b.expect(t, "counts", "one", 40, `{"ids":[10,20,40],"n":3}`)
}

// If many units fail again at a retry, the projection must not be considered wrong.
func TestResumeDoesNotJudgeAnEventThatParkedTheUnitBefore(t *testing.T) {
	t.Parallel()
	j := &judge{good: map[string]int{}}
	b := newBench(t, twoProjections, func(o *project.Options) { o.Judge = j })
	b.history.events = events(t, "one", "1 Add", "2 Bad", "3 Add")
	retried := suspended(3)
	retried.Failed = 2
	b.resume(t, retried, 1, project.ReasonExpression)
	b.expectParked(t, "counts", "one", project.ReasonExpression, 2, 3)
	if len(j.bad) > 0 {
		t.Errorf("judged %v", j.bad)
	}
	// A failure at another event counts.
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Bad")
	b.resume(t, retried, 2, project.ReasonUnavailable)
	if len(j.bad) != 1 {
		t.Errorf("judged %v", j.bad)
	}
}
