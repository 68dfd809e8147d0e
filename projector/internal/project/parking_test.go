package project_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// expectParked expects the one unit that is parked.
func (b *bench) expectParked(t *testing.T, projection, aggregate string, reason project.Reason, at, head int64) {
	t.Helper()
	u := unitOf(projection, aggregate)
	if c := b.parking.parked[u]; c == nil || c.Reason != reason || c.EventID != at || b.parking.heads[u] != head || c.Err == nil {
		t.Errorf("%s of %s is parked with %+v, head %d; want %s at %d, head %d", projection, aggregate, c, b.parking.heads[u], reason, at, head)
	}
}

func TestParkMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	all := events(t, "one", "1 Add", "2 Add", "3 Add", "4 Add", "5 Add", "6 Add")
	b.history.events = []*event.Event{all[0], all[1], all[3], all[4]}
	neighbour := events(t, "two", "1 Add")
	b.process(t, append(all[4:5:5], neighbour...), project.Park, "done/done")
	b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)
	b.expect(t, "counts", "two", 1, `{"ids":[1],"n":1}`)
	b.expectParked(t, "counts", "one", project.ReasonMissing, 3, 5)
	b.expectParked(t, "things", "one", project.ReasonMissing, 3, 5)
	b.process(t, all[5:], project.Hold, "done")
	b.expectParked(t, "counts", "one", project.ReasonMissing, 3, 6)
	// The missing event comes late, and is the next one of the read models.
	b.process(t, all[2:3], project.Hold, "done")
	b.expect(t, "counts", "one", 3, `{"ids":[1,2,3],"n":3}`)
	// Its successors were acknowledged: the unit stays parked until it is resumed.
	b.process(t, all[5:], project.Repair, "done")
	b.expect(t, "counts", "one", 3, `{"ids":[1,2,3],"n":3}`)
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
			for _, gaps := range []project.Gaps{project.Hold, project.Repair} {
				results, err := b.Process(t.Context(), evs, gaps)
				if !errors.Is(err, errTrouble) || verdicts(results) != "pending/pending" {
					t.Errorf("%v, %s", err, verdicts(results))
				}
			}
			b.expect(t, "things", "one", 2, `{"last":2}`)
			b.process(t, evs, project.Park, "done/done")
			b.expectParked(t, "counts", "one", project.ReasonUnavailable, 1, 2)
			if len(b.parking.parked) != 1 {
				t.Errorf("parked %v", b.parking.parked)
			}
		})
	}
}

// failing is a write to a collection that gets this status.
func failing(status model.Status) func(int, model.Write) *model.Written {
	return func(_ int, w model.Write) *model.Written {
		if w.Collection == "counts" {
			return &model.Written{Status: status, Err: errTrouble}
		}
		return nil
	}
}

func TestParkUnavailableEventStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, `projections: [{name: p, collection: p, on: {Add: {inc: {n: 1}}}}]`)
	b.history.fail = errTrouble
	b.process(t, events(t, "one", "7 Add"), project.Park, "done")
	b.expectParked(t, "p", "one", project.ReasonUnavailable, 7, 7)
}

// TestResumedInBetween holds that an event is applied if its unit was resumed between
// the look at the list and the acknowledgement.
func TestResumedInBetween(t *testing.T) {
	t.Parallel()
	b := newBench(t, `projections: [{name: counts, collection: counts, on: {Add: {inc: {n: 1}}}}]`)
	u := model.Unit{Projection: "counts", Generation: 1, Collection: "counts", AggregateID: "one"}
	b.parking.parked[u] = &project.Error{EventID: 1, Reason: project.ReasonMissing}
	b.parking.onAdvance = func() error {
		delete(b.parking.parked, u)
		return errors.New("the aggregate is not parked")
	}
	b.history.events = events(t, "one", "1 Add")
	b.process(t, events(t, "one", "2 Add"), project.Repair, "done")
	if b.marks[u] != 2 {
		t.Errorf("watermark %d", b.marks[u])
	}
}

// TestASupersededUnitIsNotParked holds that the events of a unit whose document is of a
// newer generation stay pending: the caller is about to learn of that generation.
func TestASupersededUnitIsNotParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.down = map[string]error{"counts": fmt.Errorf("load one: %w", model.ErrSuperseded)}
	results, err := b.Process(t.Context(), events(t, "one", "1 Add"), project.Park)
	if !errors.Is(err, model.ErrSuperseded) || verdicts(results) != "pending" || len(b.parking.parked) > 0 {
		t.Errorf("%v, %s, parked %v", err, verdicts(results), b.parking.parked)
	}
}

// TestAForeignDocumentIsRemovedByTheNextWrite holds that the write of a unit names the
// document of an older generation that was loaded.
func TestAForeignDocumentIsRemovedByTheNextWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	b.foreign = &model.Foreign{Generation: 1, Watermark: 9}
	b.process(t, events(t, "one", "1 Add"), project.Hold, "done")
	if w := b.writes[0][0]; w.Foreign != b.foreign {
		t.Errorf("wrote %+v", w)
	}
}

// TestNothingIsParkedWhileNothingCanBeWritten holds that an outage of the whole store
// does not put every aggregate into the list.
func TestNothingIsParkedWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	outage := errors.New("no primary")
	b := newBench(t, twoProjections, func(o *project.Options) { o.Reachable = func(context.Context) error { return outage } })
	b.onLoad = func(int) error { return errTrouble }
	results, err := b.Process(t.Context(), events(t, "one", "1 Add"), project.Park)
	if !errors.Is(err, outage) || verdicts(results) != "pending" || len(b.parking.parked) > 0 {
		t.Errorf("%v, %s, parked %v", err, verdicts(results), b.parking.parked)
	}
	// A gap that lasts is not the store's doing.
	b.onLoad = nil
	b.process(t, events(t, "one", "2 Add"), project.Park, "done")
	b.expectParked(t, "counts", "one", project.ReasonMissing, 1, 2)
}

// TestPendingWhileParkingFails holds that no event is acknowledged for a unit that
// could not be parked.
func TestPendingWhileParkingFails(t *testing.T) {
	t.Parallel()
	for name, evs := range map[string][]*event.Event{
		"gap":    events(t, "one", "2 Add"),
		"poison": events(t, "one", "1 Bad"),
	} {
		b := newBench(t, `projections: [{name: counts, collection: counts, on: {Add: {inc: {n: 1}}, Bad: {set: {x: payload.missing}}}}]`)
		for range 2 {
			b.parking.fail = errTrouble
			results, err := b.Process(t.Context(), evs, project.Park)
			if !errors.Is(err, errTrouble) || verdicts(results) != "pending" || len(b.parking.parked) > 0 {
				t.Errorf("%s: %v, %s, parked %v", name, err, verdicts(results), b.parking.parked)
			}
		}
		if results, err := b.Process(t.Context(), evs, project.Park); err != nil || len(b.parking.parked) != 1 {
			t.Errorf("%s: %v, %s, parked %v", name, err, verdicts(results), b.parking.parked)
		}
	}
}

// hanging is a store that answers no load.
type hanging struct{ *memory }

// errDated reports a request with a deadline, until which the driver would retry
// without a pause.
var errDated = errors.New("the request has a deadline")

func (hanging) Load(ctx context.Context, _ []model.Unit) ([]model.State, error) {
	if _, dated := ctx.Deadline(); dated {
		return nil, errDated
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestAttemptIsBounded holds that a store that hangs takes a call no longer than an
// attempt, and that its units are parked then.
func TestAttemptIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, twoProjections, func(o *project.Options) {
			o.Store, o.Attempt = hanging{newMemory()}, 3*time.Second
		})
		start := time.Now()
		results, err := b.Process(t.Context(), events(t, "one", "1 Add"), project.Repair)
		if err == nil || verdicts(results) != "pending" || time.Since(start) != 3*time.Second {
			t.Errorf("%v, %s after %s", err, verdicts(results), time.Since(start))
		}
		b.process(t, events(t, "one", "1 Add"), project.Park, "done")
		b.expectParked(t, "counts", "one", project.ReasonUnavailable, 1, 1)
	})
}

// TestUnreadableEventsAreParked holds that events whose content cannot be read are parked
// by their keys.
func TestUnreadableEventsAreParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	lost := errors.New("the claim check's event is not in the event store")
	evs := events(t, "one", "3 Add", "4 Add")
	b.parking.fail = errTrouble
	if results, err := b.Park(t.Context(), evs, project.ReasonMissing, lost); !errors.Is(err, errTrouble) || verdicts(results) != "pending/pending" {
		t.Errorf("%v, %s", err, verdicts(results))
	}
	results, err := b.Park(t.Context(), evs, project.ReasonMissing, lost)
	if err != nil || verdicts(results) != "done/done" || len(b.loads) > 0 {
		t.Errorf("%v, %s, %d loads", err, verdicts(results), len(b.loads))
	}
	b.expectParked(t, "counts", "one", project.ReasonMissing, 3, 4)
	b.expectParked(t, "things", "one", project.ReasonMissing, 3, 4)
}

const owned = `
projections:
  - name: owned
    collection: owned
    on:
      Take: {set: {value: payload.value}}
`

// take is an event by which an aggregate takes a value that only one may have.
func take(t *testing.T, aggregate string, id int64, value string) *event.Event {
	t.Helper()
	ev := eventOf(t, id, "Take", fmt.Sprintf(`{"value":%q}`, value))
	ev.AggregateID = aggregate
	return ev
}

// unique is a unique index on value.
func (b *bench) unique(_ int, w model.Write) *model.Written {
	content := contentOf(w.Document)
	if w.Update != nil {
		content = contentOf(w.Update.Lookup("$set").Document())
	}
	value := content["value"].StringValue()
	for u, document := range b.documents {
		if u != w.Unit && document.Lookup("value").StringValue() == value {
			return &model.Written{Status: model.Conflict, Err: fmt.Errorf("E11000 duplicate key: %s has %s", u.AggregateID, value)}
		}
	}
	return nil
}

// TestUniqueValuesChangeHands holds that two aggregates that swap a unique value, over
// a third one, come to their ends in whatever order their events arrive: each waits
// until the other has released what it takes.
func TestUniqueValuesChangeHands(t *testing.T) {
	t.Parallel()
	first := []*event.Event{take(t, "one", 1, "x"), take(t, "one", 2, "between"), take(t, "one", 3, "y")}
	second := []*event.Event{take(t, "two", 1, "y"), take(t, "two", 2, "x")}
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
			b.process(t, append(first[:1:1], second[0]), project.Hold, "done/done")
			for open := order; len(open) > 0; {
				results, err := b.Process(t.Context(), open[0], project.Hold)
				next := open[1:]
				for _, r := range results {
					if r.Verdict == project.Pending && err != nil {
						next = append(next[:len(next):len(next)], open[0])
						break
					}
				}
				if len(next) == len(open) && len(open) == 1 {
					t.Fatalf("no progress: %v, %s", err, verdicts(results))
				}
				open = next
			}
			b.expect(t, "owned", "one", 3, `{"value":"y"}`)
			b.expect(t, "owned", "two", 2, `{"value":"x"}`)
			if len(b.parking.parked) > 0 {
				t.Errorf("parked %v", b.parking.parked)
			}
		})
	}
}

// TestUniqueValueThatStaysParks holds that a conflict that lasts parks the aggregate at
// the event that met it, for good.
func TestUniqueValueThatStaysParks(t *testing.T) {
	t.Parallel()
	b := newBench(t, owned)
	b.onWrite = b.unique
	b.process(t, []*event.Event{take(t, "one", 1, "x")}, project.Hold, "done")
	evs := []*event.Event{take(t, "two", 1, "y"), take(t, "two", 2, "x"), take(t, "two", 3, "x")}
	// On a quiet system the conflict itself has to show that the store works.
	for _, want := range []string{"done/pending/pending", "done/pending/pending"} {
		results, err := b.Process(t.Context(), evs, project.Repair)
		if err == nil || verdicts(results) != want || !results[1].Answered {
			t.Errorf("%v, %s, answered %t", err, verdicts(results), results[1].Answered)
		}
	}
	results := b.process(t, evs, project.Park, "done/poison/done")
	if c := results[1].Causes; len(c) != 1 || c[0].Reason != project.ReasonRejected {
		t.Errorf("causes %v", c)
	}
	b.expectParked(t, "owned", "two", project.ReasonRejected, 2, 3)
}
