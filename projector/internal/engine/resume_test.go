package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// suspended returns aggregate one of counts, acknowledged up to a head.
func suspended(head int64) engine.Suspended {
	return engine.Suspended{Projection: "counts", AggregateID: "one", Head: head}
}

// resume resumes a unit, and expects the watermark that it reaches and the reason why it
// stops there.
func (b *bench) resume(t *testing.T, s engine.Suspended, watermark int64, reason projection.Reason) {
	t.Helper()
	r, err := b.Resume(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := projection.Reason("")
	if r.Cause != nil {
		got = r.Cause.Reason
	}
	if r.Watermark != watermark || got != reason {
		t.Errorf("got watermark %d, cause %v; want %d, %q", r.Watermark, r.Cause, watermark, reason)
	}
}

// stored stores a read model of aggregate one in counts.
func (b *bench) stored(watermark int64, document string) {
	u := unitOf("counts", "one")
	b.marks[u] = watermark
	delete(b.documents, u)
	if document != "" {
		b.documents[u] = testkit.FromJSON(document)
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	all := events(t, "one", "1 Add", "2 Add", "3 Other", "4 Add", "5 Add")
	b.process(t, all[:1], fresh, "done")
	// At first the gap persists.
	b.history.events = []*event.Event{all[1], all[3], all[4]}
	b.resume(t, suspended(4), 2, "")
	b.resume(t, suspended(4), 2, projection.ReasonMissing)
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
	b.resume(t, suspended(2), 0, projection.ReasonUnavailable)
	b.onLoad = nil
	b.history.fail = errTrouble
	b.resume(t, suspended(2), 0, projection.ReasonUnavailable)
	b.onWrite = failing(model.Unknown)
	b.resume(t, suspended(2), 0, projection.ReasonUnavailable)
	b.onWrite = failing(model.Conflict)
	b.resume(t, suspended(2), 0, projection.ReasonConflict)
	if len(b.parking.parked) > 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
	final := suspended(2)
	final.Final, final.Parks = true, true
	b.resume(t, final, 0, projection.ReasonConflict)
	b.expectParked(t, "counts", "one", projection.ReasonConflict, 1, 2)
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
	b.resume(t, suspended(4), 2, projection.ReasonExpression)
	b.expectParked(t, "counts", "one", projection.ReasonExpression, 3, 4)
	b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)
}

// TestHistoryThatDoesNotBeginAtOneWaits checks that a unit without a read model skips no
// event, and continues when the event store has event 1.
func TestHistoryThatDoesNotBeginAtOneWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	s := suspended(4)
	b.resume(t, s, 0, projection.ReasonMissing)
	b.history.events = events(t, "one", "3 Add", "4 Add")
	b.resume(t, s, 0, projection.ReasonMissing)
	if len(b.parking.parked) > 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
	s.Final = true
	b.resume(t, s, 0, projection.ReasonHistory)
	b.expect(t, "counts", "one", 0, "nil")
	if !projection.ReasonHistory.Resumes() || len(b.parking.parked) > 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
	// The first events arrive late.
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Add", "4 Add")
	b.resume(t, s, 4, "")
	b.expect(t, "counts", "one", 4, `{"ids":[1,2,3,4],"n":4}`)
	// A later gap may still be closed.
	b = newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "3 Add")
	b.stored(1, `{"n":9}`)
	b.resume(t, s, 1, projection.ReasonMissing)
	b.expect(t, "counts", "one", 1, `{"n":9}`)
}

// TestResumeOfAGeneration checks that a unit is resumed in the requested generation, if
// that is a target and its projection is not paused.
func TestResumeOfAGeneration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRebuild(t, true)
		b.history.events = events(t, "one", "1 Add", "2 Add")
		s := suspended(2)
		s.Generation = 2
		b.resume(t, s, 2, "")
		b.expectMarks(t, 0, 2)
		s.Generation = 3
		if _, err := b.Resume(t.Context(), s); !errors.Is(err, model.ErrSuperseded) {
			t.Errorf("resumed a generation that is no target: %v", err)
		}
		s.Generation = 0
		if err := b.Pause(t.Context(), "counts"); err != nil {
			t.Fatal(err)
		}
		b.resume(t, s, 0, projection.ReasonUnavailable)
		b.Continue("counts")
		b.resume(t, s, 2, "")
		b.expectMarks(t, 2, 2)
		if len(b.parking.parked) > 0 {
			t.Errorf("parked %v", b.parking.parked)
		}
	})
}

// TestForeignDocumentOfACaughtUpUnitIsRemoved checks that the document of an older
// generation is removed even if there is no event to write.
func TestForeignDocumentOfACaughtUpUnitIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.stored(4, "")
	b.resume(t, suspended(4), 4, "")
	if len(b.writes) > 0 {
		t.Errorf("wrote %+v", b.writes)
	}
	b.foreign = &model.Foreign{Generation: 1, Watermark: 9}
	b.resume(t, suspended(4), 4, "")
	if len(b.writes) != 1 || b.writes[0][0].Kind != model.MoveWatermark || b.writes[0][0].Foreign != b.foreign || b.writes[0][0].To != 4 {
		t.Errorf("wrote %+v", b.writes)
	}
	b.onWrite = failing(model.Stale)
	b.resume(t, suspended(4), 4, projection.ReasonUnavailable)
}

// TestResumeParksNothingForAPromotion checks that a unit is offered again, and not parked, if a
// promotion stops it.
func TestResumeParksNothingForAPromotion(t *testing.T) {
	t.Parallel()
	for name, watermark := range map[string]int64{"events are missing": 0, "a document of an older generation is left": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, twoProjections)
				b.history.events = events(t, "one", "1 Add", "2 Add")
				if watermark > 0 {
					b.stored(watermark, `{"ids":[1,2],"n":2}`)
					b.foreign = &model.Foreign{Generation: 1, Watermark: 9}
				}
				s := suspended(2)
				s.Parks, s.Final = true, true
				if err := b.Pause(t.Context(), "counts"); err != nil {
					t.Fatal(err)
				}
				if r, err := b.Resume(t.Context(), s); err != nil || !r.Interrupted || r.Watermark != watermark || len(b.parking.parked) > 0 {
					t.Errorf("resumed %+v, error %v, parked %v", r, err, b.parking.parked)
				}
				b.Continue("counts")
				b.resume(t, s, 2, "")
				b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)
			})
		})
	}
}

// TestResumeParksWithTheWholeHead checks that a unit is parked up to its head, not only up to
// the end of the page that was read. Otherwise it would resume only to the end of that page.
func TestResumeParksWithTheWholeHead(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	specs := []string{"1 Add", "2 Bad"}
	for id := 3; id <= 1200; id++ {
		specs = append(specs, fmt.Sprint(id, " Add"))
	}
	b.history.events = events(t, "one", specs...)
	b.resume(t, suspended(1200), 1, projection.ReasonExpression)
	b.expectParked(t, "counts", "one", projection.ReasonExpression, 2, 1200)
}

// TestResumeParksForNoConflictThatIsOver checks that a unit is not parked permanently for a
// conflict that has ended, if another error stops it after that.
func TestResumeParksForNoConflictThatIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Add")
	b.onWrite = func(call int, _ model.Write) *model.Written {
		switch call {
		case 1, 3: // the page, and event 2
			return &model.Written{Status: model.Conflict, Err: errTrouble}
		case 2, 4: // event 1, and event 2 again
			return nil
		default:
			return &model.Written{Status: model.Unknown, Err: errTrouble}
		}
	}
	final := suspended(3)
	final.Final = true
	b.resume(t, final, 2, projection.ReasonUnavailable)
	if len(b.parking.parked) > 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
}
