package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// expectParked expects exactly one parked unit.
func (b *bench) expectParked(t *testing.T, projection, aggregate string, reason projection.Reason, at, head int64) {
	t.Helper()
	u := unitOf(projection, aggregate)
	if c := b.parking.parked[u]; c == nil || c.Reason != reason || c.EventID != at || b.parking.heads[u] != head || c.Err == nil {
		t.Errorf("%s of %s is parked with %+v, head %d; want %s at %d, head %d", projection, aggregate, c, b.parking.heads[u], reason, at, head)
	}
}

func TestParkUnavailable(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bench){
		"load":  func(b *bench) { b.down = map[string]error{"counts": errTrouble} },
		"write": func(b *bench) { b.onWrite = failing(model.Unknown) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, twoProjections)
			spoil(b)
			evs := events(t, "one", "1 Add", "2 Add")
			for _, attempt := range []time.Time{fresh, fresh} {
				results, err := b.Process(t.Context(), evs, attempt)
				if !errors.Is(err, errTrouble) || verdicts(results) != "retry/retry" {
					t.Errorf("%v, %s", err, verdicts(results))
				}
			}
			b.expect(t, "things", "one", 2, `{"last":2}`)
			// The write of the other projection shows that the store answers.
			b.process(t, evs, again, "done/done")
			b.expectParked(t, "counts", "one", projection.ReasonUnavailable, 1, 2)
			if len(b.parking.parked) != 1 {
				t.Errorf("parked %v", b.parking.parked)
			}
		})
	}
}

// failing returns a hook that answers each write to counts with the status.
func failing(status model.Status) func(int, model.Write) *model.Written {
	return func(_ int, w model.Write) *model.Written {
		if w.Collection == "counts" {
			return &model.Written{Status: status, Err: errTrouble}
		}
		return nil
	}
}

// TestASupersededUnitIsNotParked checks that the events of a unit with a document of a
// newer generation stay pending, because the caller will soon read of that generation in
// the catalog.
func TestASupersededUnitIsNotParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.down = map[string]error{"counts": fmt.Errorf("load one: %w", model.ErrSuperseded)}
	results, err := b.Process(t.Context(), events(t, "one", "1 Add"), again)
	if !errors.Is(err, model.ErrSuperseded) || verdicts(results) != "retry" || len(b.parking.parked) > 0 {
		t.Errorf("%v, %s, parked %v", err, verdicts(results), b.parking.parked)
	}
}

// TestNothingIsParkedWhileTheStoreDoesNotAnswer checks that an outage of the store parks no
// aggregate as unavailable, however long it lasts. A write that was answered before does not
// show that the store answers now.
func TestNothingIsParkedWhileTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, twoProjections)
		b.process(t, events(t, "two", "1 Add"), fresh, "done")
		<-time.After(time.Minute)
		since := time.Now()
		b.down = map[string]error{"counts": errTrouble, "things": errTrouble}
		for range 3 {
			results, err := b.Process(t.Context(), events(t, "one", "1 Add"), since)
			if !errors.Is(err, errTrouble) || verdicts(results) != "retry" || len(b.parking.parked) > 0 {
				t.Errorf("%v, %s, parked %v", err, verdicts(results), b.parking.parked)
			}
		}
		// A gap does not depend on the store, so it is parked.
		b.down = nil
		b.process(t, events(t, "one", "2 Add"), since, "done")
		b.expectParked(t, "counts", "one", projection.ReasonMissing, 1, 2)
	})
}

// TestPendingWhileParkingFails checks that no event is acknowledged for a unit that could
// not be parked.
func TestPendingWhileParkingFails(t *testing.T) {
	t.Parallel()
	for name, evs := range map[string][]*event.Event{
		"gap":    events(t, "one", "2 Add"),
		"poison": events(t, "one", "1 Bad"),
	} {
		b := newBench(t, `projections: [{name: counts, collection: counts, on: {Add: {inc: {n: 1}}, Bad: {set: {x: payload.missing}}}}]`)
		for range 2 {
			b.parking.fail = errTrouble
			results, err := b.Process(t.Context(), evs, again)
			if !errors.Is(err, errTrouble) || verdicts(results) != "retry" || len(b.parking.parked) > 0 {
				t.Errorf("%s: %v, %s, parked %v", name, err, verdicts(results), b.parking.parked)
			}
		}
		if results, err := b.Process(t.Context(), evs, again); err != nil || len(b.parking.parked) != 1 {
			t.Errorf("%s: %v, %s, parked %v", name, err, verdicts(results), b.parking.parked)
		}
		// A later event is not listed either.
		b.parking.onAdvance = func() error { return errTrouble }
		if results, err := b.Process(t.Context(), events(t, "one", "3 Add"), again); !errors.Is(err, errTrouble) || verdicts(results) != "retry" {
			t.Errorf("%s: %v, %s, parked %v", name, err, verdicts(results), b.parking.parked)
		}
	}
}

// TestEventsBehindAParkedOneAreNotTried checks that an event behind a poison one only moves the
// aggregate's head in the parking list: nothing is read from the event store, and the poison event
// is not tried once more for each event that follows it.
func TestEventsBehindAParkedOneAreNotTried(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.history.events = events(t, "one", "1 Add", "2 Bad", "3 Add")
	b.process(t, b.history.events[:2], fresh, "done/done")
	b.process(t, b.history.events[2:], fresh, "done")
	b.expectParked(t, "counts", "one", projection.ReasonExpression, 2, 3)
	if b.history.asked > 0 {
		t.Errorf("the event store was read %d times", b.history.asked)
	}
}

// hanging is a store that never answers a load.
type hanging struct{ *memory }

// errDated reports a request with a deadline. The driver would retry such a request
// without a pause until the deadline.
var errDated = errors.New("the request has a deadline")

func (hanging) Load(ctx context.Context, _ []model.Unit) ([]model.State, error) {
	if _, dated := ctx.Deadline(); dated {
		return nil, errDated
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestAttemptIsBounded checks that a call ends after the time of one attempt if the store
// hangs.
func TestAttemptIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, twoProjections, func(o *benchOptions) {
			o.Store = hanging{newMemory()}
		})
		start := time.Now()
		results, err := b.Process(t.Context(), events(t, "one", "1 Add"), fresh)
		if err == nil || verdicts(results) != "retry" || time.Since(start) != 10*time.Second {
			t.Errorf("%v, %s after %s", err, verdicts(results), time.Since(start))
		}
	})
}

// TestUnreadableEventsAreParked checks that events with unreadable content park their
// aggregates, because their keys are readable.
func TestUnreadableEventsAreParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	lost := errors.New("the claim check's event is not in the event store")
	evs := events(t, "one", "3 Add", "4 Add")
	b.parking.fail = errTrouble
	if results, err := b.Park(t.Context(), evs, projection.ReasonMissing, lost, fresh); !errors.Is(err, errTrouble) || verdicts(results) != "retry/retry" {
		t.Errorf("%v, %s", err, verdicts(results))
	}
	results, err := b.Park(t.Context(), evs, projection.ReasonMissing, lost, fresh)
	if err != nil || verdicts(results) != "done/done" || len(b.loads) > 0 {
		t.Errorf("%v, %s, %d loads", err, verdicts(results), len(b.loads))
	}
	b.expectParked(t, "counts", "one", projection.ReasonMissing, 3, 4)
	b.expectParked(t, "things", "one", projection.ReasonMissing, 3, 4)
}

const owned = `
projections:
  - name: owned
    collection: owned
    on:
      Take: {set: {value: payload.value}}
`

// take returns an event by which an aggregate takes a value that must be unique.
func take(aggregate string, id int64, value string) *event.Event {
	ev := projectiontest.Event(id, "Take", fmt.Sprintf(`{"value":%q}`, value))
	ev.AggregateID = aggregate
	return ev
}

// unique behaves like a unique index on value.
func (b *bench) unique(_ int, w model.Write) *model.Written {
	content := projectiontest.Content(w.Document)
	if w.Update != nil {
		content = projectiontest.Content(w.Update.Lookup("$set").Document())
	}
	value := content["value"].StringValue()
	for u, document := range b.documents {
		if u != w.Unit && document.Lookup("value").StringValue() == value {
			return &model.Written{Status: model.Conflict, Err: fmt.Errorf("E11000 duplicate key: %s has %s", u.AggregateID, value)}
		}
	}
	return nil
}

// TestUniqueValuesChangeHands checks that two aggregates which swap their unique values,
// through a third value, are both completed in every order of their events. One that needs a
// value which is not released yet is parked at once, and resumes.
func TestUniqueValuesChangeHands(t *testing.T) {
	t.Parallel()
	first := []*event.Event{take("one", 1, "x"), take("one", 2, "between"), take("one", 3, "y")}
	second := []*event.Event{take("two", 1, "y"), take("two", 2, "x")}
	for name, order := range map[string][][]*event.Event{
		"first, then second": {first[1:], second[1:]},
		"second, then first": {second[1:], first[1:]},
		"at once":            {append(first[1:3:3], second[1])},
		"at once, reversed":  {append(second[1:2:2], first[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, owned)
			b.onWrite = b.unique
			b.process(t, append(first[:1:1], second[0]), fresh, "done/done")
			for _, evs := range order {
				b.process(t, evs, fresh, strings.TrimSuffix(strings.Repeat("done/", len(evs)), "/"))
			}
			for range 2 {
				for aggregate, history := range map[string][]*event.Event{"one": first, "two": second} {
					if c := b.parking.parked[unitOf("owned", aggregate)]; c != nil && c.Reason != projection.ReasonConflict {
						t.Errorf("parked %v", c)
					}
					b.history.events = history
					s := suspended(int64(len(history)))
					s.Projection, s.AggregateID = "owned", aggregate
					if _, err := b.Resume(t.Context(), s); err != nil {
						t.Error(err)
					}
				}
			}
			b.expect(t, "owned", "one", 3, `{"value":"y"}`)
			b.expect(t, "owned", "two", 2, `{"value":"x"}`)
		})
	}
}

// TestDirectExchangeOfUniqueValuesParksBoth checks that two aggregates which exchange their unique
// values directly are parked at the event with the conflict, with the reason that names the remedy,
// that neither is written, and that both stay parked while the conflict lasts.
func TestDirectExchangeOfUniqueValuesParksBoth(t *testing.T) {
	t.Parallel()
	b := newBench(t, owned)
	b.onWrite = b.unique
	one, two := []*event.Event{take("one", 1, "x"), take("one", 2, "y")}, []*event.Event{take("two", 1, "y"), take("two", 2, "x"), take("two", 3, "x")}
	b.process(t, one[:1], fresh, "done")
	b.process(t, two, fresh, "done/done/done")
	b.process(t, one[1:], fresh, "done")
	for aggregate, history := range map[string][]*event.Event{"one": one, "two": two} {
		b.expectParked(t, "owned", aggregate, projection.ReasonConflict, 2, int64(len(history)))
		b.history.events = history
		s := suspended(int64(len(history)))
		s.Projection, s.AggregateID = "owned", aggregate
		if resumed, err := b.Resume(t.Context(), s); err != nil || resumed.Cause == nil || resumed.Cause.Reason != projection.ReasonConflict || resumed.Parked {
			t.Errorf("%+v, %v", resumed, err)
		}
	}
	b.expect(t, "owned", "one", 1, `{"value":"x"}`)
	b.expect(t, "owned", "two", 1, `{"value":"y"}`)
}
