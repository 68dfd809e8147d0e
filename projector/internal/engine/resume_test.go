package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"

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
