package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const twoProjections = `
projections:
  - name: counts
    collection: counts
    on:
      Add: {inc: {n: 1}, push: {ids: eventId}}
      Bad: {set: {x: payload.missing}}
      Gone: {delete: true}
  - name: things
    collection: things
    aggregateType: Thing
    on:
      Add: {set: {last: eventId}}
`

func unitOf(projection, aggregate string) model.Unit {
	return model.Unit{Projection: projection, Generation: 1, Collection: projection, AggregateID: aggregate, Deletes: projection == "counts"}
}

// events makes events of one aggregate from texts such as "1 Add".
func events(tb testing.TB, aggregate string, list ...string) []*event.Event {
	tb.Helper()
	var made []*event.Event
	for _, text := range list {
		var id int64
		var kind string
		if _, err := fmt.Sscan(text, &id, &kind); err != nil {
			tb.Fatal(err)
		}
		ev := projectiontest.Event(id, kind, `{}`)
		ev.AggregateID = aggregate
		made = append(made, ev)
	}
	return made
}

func verdicts(results []model.Verdict) string {
	var list []string
	for _, v := range results {
		list = append(list, v.Outcome.String())
	}
	return strings.Join(list, "/")
}

// fresh and again are values of since: fresh for events that are offered for the first time,
// again for events that an earlier call could not finish.
var fresh, again = time.Time{}, time.Unix(1, 0)

// process processes events and expects the verdicts want and no error.
func (b *bench) process(t *testing.T, evs []*event.Event, since time.Time, want string) []model.Verdict {
	t.Helper()
	results, err := b.Process(t.Context(), evs, since)
	if got := verdicts(results); err != nil || got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
	if b.unreleased != 0 {
		t.Errorf("%d loads were not released", b.unreleased)
	}
	return results
}

func (b *bench) expect(t *testing.T, projection, aggregate string, watermark int64, document string) {
	t.Helper()
	u := unitOf(projection, aggregate)
	if got := projectiontest.JSON(t, b.documents[u]); b.marks[u] != watermark || got != document {
		t.Errorf("%s of %s: watermark %d, document %s; want %d, %s", projection, aggregate, b.marks[u], got, watermark, document)
	}
}

// expectOutcomes expects these numbers of events by projection and outcome. Other outcomes of
// the projections must be 0.
func expectOutcomes(t *testing.T, registry *prometheus.Registry, want map[string]map[string]int) {
	t.Helper()
	text := "# HELP penstock_projector_events_total Events by projection and outcome: applied, duplicate, ignored, parked, repaired in the generation that readers see; deferred in one that is being built (left to its job).\n# TYPE penstock_projector_events_total counter\n"
	for projection, outcomes := range want {
		for _, outcome := range []string{"applied", "deferred", "duplicate", "ignored", "parked", "repaired"} {
			text += fmt.Sprintf("penstock_projector_events_total{outcome=%q,projection=%q} %d\n", outcome, projection, outcomes[outcome])
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "penstock_projector_events_total"); err != nil {
		t.Error(err)
	}
}

// TestEventOfAnotherAggregateTypeCausesNoRequest checks that an event of another aggregate
// type causes no request.
func TestEventOfAnotherAggregateTypeCausesNoRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, `projections: [{name: p, collection: p, aggregateType: Other, on: {Add: {inc: {n: 1}}}}]`)
	b.process(t, events(t, "one", "7 Add"), fresh, "done")
	if len(b.loads)+len(b.writes) > 0 {
		t.Error("the store was asked")
	}
	b.process(t, nil, fresh, "")
}

// TestRejectedEventOfABatchIsFound checks that in a batch that MongoDB rejects, the engine
// finds the failing event and applies those before it.
func TestRejectedEventOfABatchIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections)
	refused := errors.New("Document failed validation")
	b.onWrite = func(_ int, w model.Write) *model.Written {
		if w.Projection == "counts" && w.To >= 3 {
			return &model.Written{Status: model.Rejected, Err: refused}
		}
		return nil
	}
	b.process(t, events(t, "one", "1 Add", "2 Add", "3 Add", "4 Add"), fresh, "done/done/done/done")
	b.expectParked(t, "counts", "one", projection.ReasonRejected, 3, 4)
	b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)
	b.expect(t, "things", "one", 4, `{"last":4}`)
}

// TestStoreErrorsLeaveEventsPending checks that a call makes one attempt without waiting,
// even if a request fails, and that the caller's next attempts finish all events.
func TestStoreErrorsLeaveEventsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, twoProjections)
		start := time.Now()
		b.onLoad = func(call int) error {
			if call <= 2 {
				return errTrouble
			}
			return nil
		}
		b.onWrite = func(call int, w model.Write) *model.Written {
			if call == 1 && w.Projection == "counts" {
				b.apply(w) // The write is applied, but its reply is lost.
				return &model.Written{Err: errTrouble}
			}
			return nil
		}
		b.history.fail, b.parking.fail = errTrouble, errTrouble
		b.history.events = events(t, "one", "1 Add", "2 Add")
		attempts := 1
		for ; ; attempts++ {
			results, err := b.Process(t.Context(), events(t, "one", "3 Add", "4 Bad"), fresh)
			if verdicts(results) == "done/done" {
				break
			}
			if !errors.Is(err, errTrouble) || verdicts(results) != "retry/retry" || attempts > 10 {
				t.Fatalf("attempt %d: %v, %s", attempts, err, verdicts(results))
			}
		}
		b.expect(t, "counts", "one", 3, `{"ids":[1,2,3],"n":3}`)
		b.expect(t, "things", "one", 4, `{"last":3}`)
		if d := time.Since(start); d > 0 || attempts < 4 {
			t.Errorf("took %s and %d attempts", d, attempts)
		}
	})
}

// TestUnwrittenEventsAreRetriedAfterTheContext checks that events which are not durable
// when the context ends are retried, and the others are done.
func TestUnwrittenEventsAreRetriedAfterTheContext(t *testing.T) {
	t.Parallel()
	b := newBench(t, `projections: [{name: p, collection: p, on: {Add: {inc: {n: 1}}}}]`)
	lockLost := errors.New("lock lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	b.onWrite = func(_ int, w model.Write) *model.Written {
		if w.AggregateID == "two" {
			cancel(lockLost)
			return &model.Written{Err: errTrouble}
		}
		return nil
	}
	results, err := b.Process(ctx, append(events(t, "one", "1 Add"), events(t, "two", "1 Add")...), again)
	if !errors.Is(err, lockLost) || verdicts(results) != "done/retry" || len(b.parking.parked) > 0 {
		t.Errorf("%v, %s, parked %v", err, verdicts(results), b.parking.parked)
	}
}

// TestWriteWithALostReplyCountsAsApplied checks that a write whose reply was lost counts as
// applied, not as a duplicate.
func TestWriteWithALostReplyCountsAsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		b := newBench(t, `projections: [{name: p, collection: p, on: {Add: {inc: {n: 1}}}}]`, func(o *benchOptions) { o.Registerer = registry })
		b.onWrite = func(call int, w model.Write) *model.Written {
			if call > 1 {
				return nil
			}
			b.apply(w)
			return &model.Written{Err: errTrouble}
		}
		b.process(t, events(t, "one", "1 Add", "2 Add"), fresh, "done/done")
		expectOutcomes(t, registry, map[string]map[string]int{
			"p": {"applied": 2},
		})
	})
}

func TestContradictingTargetsAreRefused(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{set: {a: "1"}}`)
	q, err := projection.New(projection.Declaration{Name: "q", Collection: "c", Apply: func(s projection.State, _ *event.Event) (projection.State, error) { return s, nil }})
	if err != nil {
		t.Fatal(err)
	}
	second := engine.Target{Projection: p, Generation: 2}
	shadow := engine.Target{Projection: p, Generation: 2, Collection: "shadow", Building: true}
	deferring := engine.Target{Projection: p, Generation: 2, Collection: "shadow", Defers: true}
	for name, targets := range map[string][]engine.Target{
		"twice":      liveTargets([]*projection.Projection{p, p}),
		"collection": liveTargets([]*projection.Projection{p, q}),
		"two live":   {{Projection: p, Collection: "first"}, second},
		"generation": {second, shadow},
		"deferring":  {deferring},
		"projection": {{}},
	} {
		if err := engine.New(engine.Options{}).Set(targets); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
