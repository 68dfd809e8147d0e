package project_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// afresh returns aggregate one of counts, to be folded from nothing up to a head.
func afresh(head int64) project.Suspended {
	s := suspended(head)
	s.Fresh = true
	return s
}

// stored stores a read model of aggregate one in counts.
func (b *bench) stored(t *testing.T, watermark int64, document string) {
	t.Helper()
	u := unitOf("counts", "one")
	b.marks[u] = watermark
	delete(b.documents, u)
	if document != "" {
		b.documents[u] = rawOf(t, document)
	}
}

// TestAfreshReplacesWhatIsStored checks that a unit is folded from nothing into one
// write, independent of the stored document.
func TestAfreshReplacesWhatIsStored(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		watermark int64
		stored    string
		events    []string
		head      int64
		kind      model.Kind
		want      string
		mark      int64
	}{
		"a wrong field":             {3, `{"n":99,"ids":[1,2,3],"odd":true}`, []string{"1 Add", "2 Add", "3 Add", "4 Add"}, 3, model.Update, `{"ids":[1,2,3],"n":3}`, 3},
		"the head is further":       {2, `{"n":99}`, []string{"1 Add", "2 Add", "3 Add"}, 3, model.Update, `{"ids":[1,2,3],"n":3}`, 3},
		"the watermark is further":  {3, `{"n":99}`, []string{"1 Add", "2 Add", "3 Add"}, 1, model.Update, `{"ids":[1,2,3],"n":3}`, 3},
		"no document any more":      {0, "", []string{"1 Add", "2 Add"}, 2, model.Create, `{"ids":[1,2],"n":2}`, 2},
		"no document at the head":   {2, "", []string{"1 Add", "2 Add"}, 2, model.Create, `{"ids":[1,2],"n":2}`, 2},
		"a document after a delete": {2, `{"n":1}`, []string{"1 Add", "2 Gone"}, 2, model.Delete, "nil", 2},
		"created anew":              {3, `{"n":9,"odd":1}`, []string{"1 Add", "2 Gone", "3 Add"}, 3, model.Update, `{"ids":[3],"n":1}`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, twoProjections)
			b.stored(t, test.watermark, test.stored)
			b.history.events = events(t, "one", test.events...)
			b.resume(t, afresh(test.head), test.mark, "")
			b.expect(t, "counts", "one", test.mark, test.want)
			if len(b.writes) != 1 || b.writes[0][0].Kind != test.kind || b.writes[0][0].From != test.watermark {
				t.Errorf("wrote %+v", b.writes)
			}
			if b.unreleased != 0 {
				t.Errorf("%d loads were not released", b.unreleased)
			}
		})
	}
}

// TestAfreshReadsPageByPage checks that a long history becomes one write, and that one of
// increasing ids is read to its end.
func TestAfreshReadsPageByPage(t *testing.T) {
	t.Parallel()
	for _, sequence := range []event.Sequence{event.SequenceStrict, event.SequenceIncreasing} {
		b := newBench(t, twoProjections, func(o *project.Options) { o.Sequence = sequence })
		step := 1
		if sequence == event.SequenceIncreasing {
			step = 7
		}
		for i := range 1300 {
			b.history.events = append(b.history.events, events(t, "one", fmt.Sprint((i+1)*step, " Add"))...)
		}
		b.stored(t, int64(5*step), `{"n":4}`)
		b.resume(t, afresh(int64(1300*step)), int64(1300*step), "")
		if n := b.documents[unitOf("counts", "one")].Lookup("n").AsInt64(); n != 1300 || len(b.writes) != 1 || b.history.asked != 3 {
			t.Errorf("%s: n is %d after %d writes and %d reads", sequence, n, len(b.writes), b.history.asked)
		}
	}
}

// TestAfreshStopsAtAPoisonEvent checks that the fold of the events before the failing one
// replaces the stored document, but never lowers a watermark.
func TestAfreshStopsAtAPoisonEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Bad", "4 Add")
	b.stored(t, 1, `{"n":9}`)
	b.resume(t, afresh(4), 2, project.ReasonExpression)
	b.expectParked(t, "counts", "one", project.ReasonExpression, 3, 4)
	b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)

	b = newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Bad", "4 Add")
	b.stored(t, 4, `{"n":9}`)
	b.resume(t, afresh(4), 4, project.ReasonExpression)
	b.expectParked(t, "counts", "one", project.ReasonExpression, 3, 4)
	b.expect(t, "counts", "one", 4, `{"n":9}`)
}

// TestAHistoryThatDoesNotBeginAtOneParks checks that a unit folded from nothing skips no
// event, and waits for event 1 until the history is final.
func TestAHistoryThatDoesNotBeginAtOneParks(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{false, true} {
		j := &judge{good: map[string]int{}}
		b := newBench(t, twoProjections, func(o *project.Options) { o.Judge = j })
		s := suspended(4)
		s.Fresh = fresh
		b.resume(t, s, 0, project.ReasonMissing)
		b.history.events = events(t, "one", "3 Add", "4 Add")
		b.resume(t, s, 0, project.ReasonMissing)
		if len(b.parking.parked) > 0 {
			t.Errorf("parked %v", b.parking.parked)
		}
		s.Final = true
		b.resume(t, s, 0, project.ReasonHistory)
		b.expectParked(t, "counts", "one", project.ReasonHistory, 1, 4)
		b.expect(t, "counts", "one", 0, "nil")
		if project.ReasonHistory.Resumes() || len(j.bad) > 0 {
			t.Errorf("judged %v", j.bad)
		}
		// A later gap may still be closed.
		b = newBench(t, twoProjections)
		b.history.events = events(t, "one", "1 Add", "3 Add")
		b.stored(t, 1, `{"n":9}`)
		b.resume(t, s, 1, project.ReasonMissing)
		b.expect(t, "counts", "one", 1, `{"n":9}`)
	}
}

// TestAfreshUnderOtherWriters checks that a unit to which other writers apply events
// meanwhile is folded up to its new watermark.
func TestAfreshUnderOtherWriters(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Add", "3 Add", "4 Add")
	b.stored(t, 1, `{"n":9}`)
	b.onLoad = func(call int) error {
		if call == 2 {
			b.marks[unitOf("counts", "one")] = 4
		}
		return nil
	}
	b.resume(t, afresh(2), 4, "")
	b.expect(t, "counts", "one", 4, `{"ids":[1,2,3,4],"n":4}`)

	b.onLoad = nil
	b.stored(t, 1, `{"n":9}`)
	b.onWrite = failing(model.Stale)
	b.resume(t, afresh(2), 1, project.ReasonUnavailable)
	b.onWrite = failing(model.Unknown)
	b.resume(t, afresh(2), 1, project.ReasonUnavailable)
	b.onWrite = failing(model.Conflict)
	b.resume(t, afresh(2), 1, project.ReasonUnavailable)
	b.history.fail = errTrouble
	b.resume(t, afresh(2), 1, project.ReasonUnavailable)
	b.onLoad = func(int) error { return errTrouble }
	b.resume(t, afresh(2), 0, project.ReasonUnavailable)
	b.onLoad = nil
	if len(b.parking.parked) > 0 || b.unreleased != 0 {
		t.Errorf("parked %v, %d loads not released", b.parking.parked, b.unreleased)
	}
	final := afresh(2)
	final.Final = true
	b.resume(t, final, 1, project.ReasonRejected)
	b.onWrite = failing(model.Rejected)
	b.resume(t, afresh(2), 1, project.ReasonRejected)
	b.expectParked(t, "counts", "one", project.ReasonRejected, 2, 2)
}

// TestResumeOfAGeneration checks that a unit is resumed in the requested generation, if
// that is a target and its projection is not paused.
func TestResumeOfAGeneration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRebuild(t, true)
		b.history.events = events(t, "one", "1 Add", "2 Add")
		for _, fresh := range []bool{false, true} {
			clear(b.marks)
			clear(b.documents)
			s := suspended(2)
			s.Fresh, s.Generation = fresh, 2
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
			b.resume(t, s, 0, project.ReasonUnavailable)
			b.Continue("counts")
			b.resume(t, s, 2, "")
			b.expectMarks(t, 2, 2)
		}
		if len(b.parking.parked) > 0 {
			t.Errorf("parked %v", b.parking.parked)
		}
	})
}

// TestACaughtUpUnitLosesAForeignDocument checks that the document of an older generation
// is removed even if there is no event to write.
func TestACaughtUpUnitLosesAForeignDocument(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.stored(t, 4, "")
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
	b.resume(t, suspended(4), 4, project.ReasonUnavailable)
}

// TestAfreshIsTheFold checks that the result is the fold of the history, for any
// projection, history and stored document.
func TestAfreshIsTheFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, wrong, history := drawProjection(t), drawDocument(t), drawEvents(t)
		m, parking := newMemory(), newFakeParking()
		e, err := project.NewEngine(project.Options{Targets: project.Live([]*project.Projection{p}), Store: m, Parking: parking, Repairer: &storedHistory{history}})
		if err != nil {
			t.Fatal(err)
		}
		u := model.Unit{Projection: "p", Generation: 1, Collection: "c", AggregateID: "a-1", Deletes: p.Deletes()}
		watermark := rapid.Int64Range(0, int64(len(history))).Draw(t, "watermark")
		if wrong != nil {
			watermark = max(1, watermark)
			m.documents[u] = wrong
		}
		m.marks[u] = watermark
		head := rapid.Int64Range(1, int64(len(history))).Draw(t, "head")
		until := max(head, watermark)
		want := p.Fold(nil, history[:until])
		r, err := e.Resume(t.Context(), project.Suspended{Projection: "p", AggregateID: "a-1", Head: head, Fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		if want.Err != nil {
			if r.Cause == nil || r.Cause.EventID != want.Err.EventID || parking.parked[u] == nil {
				t.Fatalf("came to %d, %v; want %v", r.Watermark, r.Cause, want.Err)
			}
			if int64(want.Folded) < watermark {
				return
			}
			until = max(watermark, int64(want.Folded))
			if until == 0 {
				return
			}
		}
		got := contentOf(m.documents[u])
		for _, name := range []string{"_id", "lastEventId"} {
			delete(got, name)
		}
		if r.Watermark != until || m.marks[u] != until || !reflect.DeepEqual(got, contentOf(want.State())) || (m.documents[u] == nil) != (want.State() == nil) {
			t.Fatalf("came to %d, %s; want %d, %s", r.Watermark, m.documents[u], until, want.State())
		}
	})
}

// storedHistory is an event store with one aggregate and two events per page.
type storedHistory struct{ events []*event.Event }

func (h *storedHistory) Missing(_ context.Context, _ *event.Event, from, to int64, _ int) ([]*event.Event, error) {
	return h.events[from-1 : min(from+1, to)], nil
}
