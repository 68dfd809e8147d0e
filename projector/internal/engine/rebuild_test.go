package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// stage runs several pods through rebuilds of one projection. Events are published,
// delivered in batches and acknowledged while the targets change.
type stage struct {
	seed       uint64
	pods       int
	aggregates int
	events     int
	rebuilds   int
	faults     float64
	sequence   event.Sequence

	mu     sync.Mutex
	random *rand.Rand
	// documents are the stored documents of the units.
	documents map[model.Unit]mark
	// published is the number of each aggregate's events in the event store and on the
	// topic. acknowledged are those that were acknowledged.
	published    []int
	acknowledged []map[int]bool
	histories    [][]*event.Event
}

type mark struct {
	watermark int64
	text      string
}

// listed returns a target whose documents list the generation's number and the ids of
// their events. They show each event that was lost, folded twice, or folded by another
// generation.
func listed(tb testing.TB, generation int64) engine.Target {
	tb.Helper()
	p, err := projection.New(projection.Declaration{Name: "p", Collection: "c", Apply: func(state projection.State, ev *event.Event) (projection.State, error) {
		text := fmt.Sprint("g", generation)
		if state != nil {
			text = state.Lookup("text").StringValue()
		}
		return bson.Marshal(bson.D{{Key: "text", Value: fmt.Sprint(text, " ", ev.EventID)}})
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return engine.Target{Projection: p, Generation: generation}
}

func shadowOf(t engine.Target, defers bool) engine.Target {
	t.Collection, t.Building, t.Defers = fmt.Sprint("c.generation-", t.Generation), true, defers
	return t
}

func (s *stage) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64() < p
}

func (s *stage) number(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

func (s *stage) delay() { <-time.After(time.Duration(s.number(5000)) * time.Microsecond) }

func (s *stage) Load(_ context.Context, units []model.Unit) ([]model.State, error) {
	s.delay()
	defer s.delay()
	fails := s.chance(s.faults)
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]model.State, len(units))
	for i, u := range units {
		m := s.documents[u]
		states[i].Watermark = m.watermark
		if m.watermark > 0 {
			raw, err := bson.Marshal(bson.D{{Key: "_id", Value: u.AggregateID}, {Key: "lastEventId", Value: m.watermark}, {Key: "text", Value: m.text}})
			if err != nil {
				return nil, err
			}
			states[i].Document = raw
		}
		if fails {
			states[i] = model.State{Unavailable: errTrouble}
		}
	}
	return states, nil
}

func (s *stage) Release([]model.State) {}

func (s *stage) Write(_ context.Context, writes []model.Write) ([]model.Written, error) {
	s.delay()
	defer s.delay()
	before, after := s.chance(s.faults), s.chance(s.faults)
	s.mu.Lock()
	defer s.mu.Unlock()
	written := make([]model.Written, len(writes))
	for i, w := range writes {
		content := w.Document
		if w.Kind == model.Update {
			content = w.Update.Lookup("$set").Document()
		}
		switch {
		case before:
			written[i].Err = errTrouble
			continue
		case s.documents[w.Unit].watermark != w.From:
			written[i].Status = model.Stale
		default:
			s.documents[w.Unit], written[i].Status = mark{w.To, content.Lookup("text").StringValue()}, model.Applied
		}
		if after {
			written[i] = model.Written{Err: errTrouble}
		}
	}
	return written, nil
}

// Missing returns published events. Pages are small, so that histories take several.
func (s *stage) Missing(_ context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	s.delay()
	if s.chance(s.faults) {
		return nil, errTrouble
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*event.Event
	for a, history := range s.histories {
		for _, stored := range history[:s.published[a]] {
			if stored.AggregateID == ev.AggregateID && stored.EventID >= from && stored.EventID <= to && len(found) < limit {
				found = append(found, stored)
			}
		}
	}
	return found, nil
}

// Parked reports no unit: every event here can be applied.
func (s *stage) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	return make([]model.Position, len(units)), nil
}

func (s *stage) Park(context.Context, []model.Marker) error  { return errors.New("parked") }
func (s *stage) Advance(context.Context, []model.Head) error { return errors.New("advanced") }

// take returns a batch: for some aggregates, the events from the first unacknowledged one
// on, some of them twice.
func (s *stage) take() (events []*event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, history := range s.histories {
		first := 0
		for first < s.published[a] && s.acknowledged[a][first] {
			first++
		}
		if first == s.published[a] || s.random.IntN(3) == 0 {
			continue
		}
		from := max(0, first-s.random.IntN(3))
		part := slices.Clone(history[from:min(s.published[a], first+1+s.random.IntN(4))])
		if len(part) > 2 && s.sequence == event.SequenceStrict && s.random.IntN(4) == 0 {
			part = slices.Delete(part, 1, 2)
		}
		events = append(events, part...)
	}
	return events
}

func (s *stage) acknowledge(events []*event.Event, results []model.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, history := range s.histories {
		for i, ev := range events {
			if results[i].Outcome != model.Done {
				continue
			}
			if at := slices.Index(history, ev); at >= 0 {
				s.acknowledged[a][at] = true
			}
		}
	}
}

// finished reports whether all events are published and acknowledged.
func (s *stage) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.histories {
		if len(s.acknowledged[a]) < s.events {
			return false
		}
	}
	return true
}

func newStage(t *rapid.T) *stage {
	s := &stage{
		seed:       rapid.Uint64().Draw(t, "seed"),
		pods:       rapid.IntRange(1, 3).Draw(t, "pods"),
		aggregates: rapid.IntRange(1, 4).Draw(t, "aggregates"),
		events:     rapid.IntRange(1, 40).Draw(t, "events"),
		rebuilds:   rapid.IntRange(0, 4).Draw(t, "rebuilds"),
		faults:     rapid.SampledFrom([]float64{0, 0, 0.05, 0.2}).Draw(t, "faults"),
		sequence:   rapid.SampledFrom([]event.Sequence{event.SequenceStrict, event.SequenceIncreasing}).Draw(t, "sequence"),
		documents:  map[model.Unit]mark{},
	}
	s.random = rand.New(rand.NewPCG(s.seed, 1))
	step := int64(1)
	if s.sequence == event.SequenceIncreasing {
		step = 3
	}
	for a := range s.aggregates {
		var history []*event.Event
		for i := range s.events {
			history = append(history, &event.Event{Keys: event.Keys{AggregateID: fmt.Sprint("a", a), EventID: int64(i+1) * step, EventType: "Listed"}})
		}
		s.histories = append(s.histories, history)
		s.published, s.acknowledged = append(s.published, 0), append(s.acknowledged, map[int]bool{})
	}
	return s
}

// set sets the targets of all pods, one after the other.
func (s *stage) set(tb testing.TB, engines []*engine.Engine, targets ...engine.Target) {
	tb.Helper()
	for _, e := range engines {
		s.delay()
		if err := e.Set(targets); err != nil {
			tb.Error(err)
		}
	}
}

// refold folds every aggregate up to its current head in the event store, as the build
// and the sweep do. A build leaves aggregates with an error to the sweep.
func (s *stage) refold(tb testing.TB, e *engine.Engine, generation int64, sweep bool) {
	tb.Helper()
	for a, history := range s.histories {
		s.mu.Lock()
		head := int64(0)
		if n := s.published[a]; n > 0 {
			head = history[n-1].EventID
		}
		s.mu.Unlock()
		for done := head == 0; !done; {
			r, err := e.Resume(tb.Context(), engine.Suspended{Projection: "p", Generation: generation, AggregateID: history[0].AggregateID, Head: head})
			if err != nil {
				tb.Error(err)
				return
			}
			if r.Cause != nil && r.Cause.Reason != projection.ReasonUnavailable {
				tb.Error(r.Cause)
				return
			}
			done = r.Watermark >= head || r.Cause != nil && !sweep
		}
	}
}

// rebuildOnce builds the next generation, and promotes it or gives it up.
func (s *stage) rebuildOnce(tb testing.TB, engines []*engine.Engine, live, next engine.Target) engine.Target {
	tb.Helper()
	s.set(tb, engines, live, shadowOf(next, true))
	s.refold(tb, engines[0], next.Generation, false)
	if s.number(4) == 0 {
		s.set(tb, engines, live)
		return live
	}
	s.set(tb, engines, live, shadowOf(next, false))
	s.refold(tb, engines[0], next.Generation, true)
	s.delay()
	for _, e := range engines {
		if err := e.Pause(tb.Context(), "p"); err != nil {
			tb.Error(err)
		}
	}
	s.delay()
	s.rename(next)
	s.set(tb, engines, next)
	for _, e := range engines {
		s.delay()
		e.Continue("p")
	}
	return next
}

// rename renames the shadow of a generation to the live name.
func (s *stage) rename(next engine.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := shadowOf(next, false).Collection
	maps.DeleteFunc(s.documents, func(u model.Unit, _ mark) bool { return u.Collection == "c" })
	for u, m := range maps.Clone(s.documents) {
		if u.Collection == from {
			delete(s.documents, u)
			u.Collection = "c"
			s.documents[u] = m
		}
	}
}

// play runs all rebuilds, and checks the generation that is live at the end.
func (s *stage) play(tb testing.TB) error {
	tb.Helper()
	live := listed(tb, 1)
	var engines []*engine.Engine
	for range s.pods {
		e, err := engine.New(engine.Options{Targets: []engine.Target{live}, Store: s, Parking: s, Repairer: s, Sequence: s.sequence})
		if err != nil {
			return err
		}
		engines = append(engines, e)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for range s.events * s.aggregates {
			s.delay()
			s.mu.Lock()
			open := []int{}
			for a, n := range s.published {
				if n < s.events {
					open = append(open, a)
				}
			}
			s.published[open[s.random.IntN(len(open))]]++
			s.mu.Unlock()
		}
	})
	for _, e := range engines {
		for range 2 {
			work.Go(func() {
				for !s.finished() {
					batch := s.take()
					if len(batch) == 0 {
						s.delay()
						continue
					}
					results, _ := e.Process(tb.Context(), batch, []model.Attempt{model.Hold, model.Repair}[s.number(2)])
					s.acknowledge(batch, results)
					if !s.finished() {
						s.delay()
					}
				}
			})
		}
	}
	for i := range s.rebuilds {
		live = s.rebuildOnce(tb, engines, live, listed(tb, int64(i+2)))
	}
	work.Wait()
	return s.compare(live)
}

// compare compares the live generation with the complete histories.
func (s *stage) compare(live engine.Target) error {
	for a, history := range s.histories {
		want := fmt.Sprint("g", live.Generation)
		for _, ev := range history {
			want += fmt.Sprint(" ", ev.EventID)
		}
		u := model.Unit{Projection: "p", Generation: live.Generation, Collection: "c", AggregateID: history[0].AggregateID}
		if got := s.documents[u].text; got != want {
			return fmt.Errorf("aggregate %d is\n%s, not\n%s", a, got, want)
		}
	}
	return nil
}

// TestTargetsChangeUnderLoad checks the guarantee of a rebuild: several pods build,
// promote and give up generations while events are in flight. At the end, every
// acknowledged event is in the live generation, once and in order.
func TestTargetsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = s.play(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
