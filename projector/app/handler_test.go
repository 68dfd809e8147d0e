package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/semaphore"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// fakeEngine returns prepared results by event id; events without one are done.
type fakeEngine struct {
	results map[int64]model.Verdict
	err     error
	seen    []*event.Event
	since   time.Time
	// parked has the ids of events that were parked unread, by reason.
	parked map[projection.Reason][]int64
}

func (e *fakeEngine) Park(_ context.Context, events []*event.Event, reason projection.Reason, err error, since time.Time) ([]model.Verdict, error) {
	results := make([]model.Verdict, len(events))
	if reason == projection.ReasonUnavailable && since.IsZero() {
		return results, err
	}
	for i, ev := range events {
		if e.parked == nil {
			e.parked = make(map[projection.Reason][]int64)
		}
		e.parked[reason] = append(e.parked[reason], ev.EventID)
		results[i].Outcome = model.Done
	}
	return results, nil
}

func (e *fakeEngine) Process(_ context.Context, events []*event.Event, since time.Time) ([]model.Verdict, error) {
	e.seen, e.since = events, since
	results := make([]model.Verdict, len(events))
	for i, ev := range events {
		result, ok := e.results[ev.EventID]
		if !ok {
			result.Outcome = model.Done
		}
		results[i] = result
	}
	return results, e.err
}

// fakeStore maps the event ids of the store to the error of reading them.
type fakeStore map[int64]error

func (s fakeStore) Whole(_ context.Context, ev *event.Event) (*event.Event, error) {
	if err := s[ev.EventID]; err != nil {
		return nil, err
	}
	whole := *ev
	whole.EventType = "Whole"
	return &whole, nil
}

func newHandler(e processor, whole func(context.Context, *event.Event) (*event.Event, error)) *handler {
	return &handler{engine: e, whole: whole, claims: semaphore.NewWeighted(claimBatches), log: zerolog.Nop()}
}

func delivery(aggregate string, id int64, claim bool) *drain.Delivery {
	d := &drain.Delivery{ClaimCheck: claim}
	d.Event.AggregateID, d.Event.EventID = aggregate, id
	return d
}

func outcomes(verdicts []model.Verdict) []model.Outcome {
	var all []model.Outcome
	for _, v := range verdicts {
		all = append(all, v.Outcome)
	}
	return all
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	eng := &fakeEngine{
		err: errors.New("no primary"),
		results: map[int64]model.Verdict{
			1: {Outcome: model.Done},
			2: {Outcome: model.Retry},
		},
	}
	h := &handler{engine: eng, log: zerolog.Nop()}
	since := time.Now()
	verdicts := h.Handle(t.Context(), []*drain.Delivery{delivery("a", 1, false), delivery("b", 2, false), delivery("c", 3, false), delivery("d", 4, false)}, since)
	want := []model.Outcome{model.Done, model.Retry, model.Done, model.Done}
	if got := outcomes(verdicts); !slices.Equal(got, want) {
		t.Fatalf("outcomes %v, want %v", got, want)
	}
	if !errors.Is(verdicts[1].Err, eng.err) {
		t.Errorf("verdicts %+v", verdicts)
	}
	if eng.since != since {
		t.Error("the engine does not know since when the events could not be finished")
	}
}

// While a promotion pauses a projection, all its events wait, which is no reason for a
// warning. Another error beside the pause is one.
func TestWaitForAPromotionIsNotLoggedAsAWarning(t *testing.T) {
	t.Parallel()
	paused := fmt.Errorf("write users: %w", engine.ErrPaused)
	superseded := fmt.Errorf("write orders: %w", model.ErrSuperseded)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"paused":                  {paused, "debug"},
		"paused and superseded":   {errors.Join(paused, superseded), "debug"},
		"paused and a lost store": {errors.Join(paused, errors.New("connection reset")), "warn"},
		"a lost store":            {fmt.Errorf("write: %w", errors.Join(errors.New("connection reset"))), "warn"},
	} {
		var log bytes.Buffer
		h := &handler{engine: &fakeEngine{err: test.err, results: map[int64]model.Verdict{1: {}}}, log: zerolog.New(&log)}
		h.Handle(t.Context(), []*drain.Delivery{delivery("a", 1, false)}, time.Time{})
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"level":"`+test.want+`"`) {
			t.Errorf("%s: logged %q, want level %s", name, got, test.want)
		}
	}
}

func TestClaimChecks(t *testing.T) {
	t.Parallel()
	store := fakeStore{2: eventstore.ErrNotFound, 12: errors.New("no primary")}
	eng := &fakeEngine{}
	h := newHandler(eng, store.Whole)
	batch := []*drain.Delivery{
		delivery("a", 1, true), delivery("a", 2, true), delivery("a", 3, false),
		delivery("b", 12, true), delivery("b", 13, true),
		delivery("c", 20, false), delivery("c", 21, true),
	}
	verdicts := h.Handle(t.Context(), batch, time.Time{})
	want := []model.Outcome{model.Done, model.Done, model.Done, model.Retry, model.Retry, model.Done, model.Done}
	if got := outcomes(verdicts); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	var seen []int64
	for _, ev := range eng.seen {
		seen = append(seen, ev.EventID)
	}
	if !slices.Equal(seen, []int64{1, 20, 21}) || eng.seen[0].EventType != "Whole" || eng.seen[1].EventType == "Whole" {
		t.Errorf("the engine saw %v", seen)
	}
	eng.seen = nil
	h.Handle(t.Context(), batch[1:3], time.Time{})
	if eng.seen != nil {
		t.Error("the engine was called without events")
	}
}

// An aggregate whose claim check cannot be redeemed is parked at that event,
// unless an earlier event of it is not finished.
func TestAggregatesOfUnreadableClaimChecksAreParked(t *testing.T) {
	t.Parallel()
	store := fakeStore{2: eventstore.ErrNotFound, 12: errors.New("no primary"), 22: eventstore.ErrNotFound}
	eng := &fakeEngine{results: map[int64]model.Verdict{21: {Outcome: model.Retry}}}
	h := newHandler(eng, store.Whole)
	batch := []*drain.Delivery{
		delivery("a", 1, false), delivery("a", 2, true), delivery("a", 3, false),
		delivery("b", 12, true), delivery("b", 13, true),
		delivery("c", 21, false), delivery("c", 22, true),
	}
	want := []model.Outcome{model.Done, model.Done, model.Done, model.Done, model.Done, model.Retry, model.Retry}
	if got := outcomes(h.Handle(t.Context(), batch, time.Now())); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if !slices.Equal(eng.parked[projection.ReasonMissing], []int64{2, 3}) || !slices.Equal(eng.parked[projection.ReasonUnavailable], []int64{12, 13}) {
		t.Errorf("parked %v", eng.parked)
	}
}

func TestEventsOfClaimChecksAreBoundedInMemory(t *testing.T) {
	t.Parallel()
	eng := &fakeEngine{}
	h := newHandler(eng, sizedEvent(3<<20))
	batch := []*drain.Delivery{
		delivery("a", 1, true), delivery("a", 2, true), delivery("a", 3, true), delivery("a", 4, false),
		delivery("b", 10, true), delivery("b", 11, false),
		delivery("c", 20, false),
	}
	want := []model.Outcome{model.Done, model.Done, model.Deferred, model.Deferred, model.Deferred, model.Deferred, model.Done}
	if got := outcomes(h.Handle(t.Context(), batch, time.Time{})); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if len(eng.seen) != 3 {
		t.Errorf("the engine saw %d events", len(eng.seen))
	}
	// The deferred events are handled when the batch comes again.
	want = []model.Outcome{model.Done, model.Done, model.Done, model.Done}
	if got := outcomes(h.Handle(t.Context(), batch[2:6], time.Time{})); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

// sleepingEngine takes a second for a batch, and counts the batches at the same time.
type sleepingEngine struct {
	fakeEngine
	now, max atomic.Int32
}

func (e *sleepingEngine) Process(_ context.Context, events []*event.Event, _ time.Time) ([]model.Verdict, error) {
	if now := e.now.Add(1); now > e.max.Load() {
		e.max.Store(now)
	}
	<-time.After(time.Second)
	e.now.Add(-1)
	results := make([]model.Verdict, len(events))
	for i := range results {
		results[i].Outcome = model.Done
	}
	return results, nil
}

// sizedEvent reads events of one size.
func sizedEvent(size int) func(context.Context, *event.Event) (*event.Event, error) {
	return func(_ context.Context, ev *event.Event) (*event.Event, error) {
		return &event.Event{Keys: ev.Keys, Document: make(bson.Raw, size)}, nil
	}
}

// Only some batches at a time hold events of the event store. A batch whose context ends while it
// waits is retried, and its aggregate is not parked: nothing says that its event cannot be read.
func TestBatchesWithEventsOfTheStoreAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := &sleepingEngine{}
		h := newHandler(eng, sizedEvent(15<<20))
		var sessions sync.WaitGroup
		for n := range 10 {
			sessions.Go(func() {
				h.Handle(t.Context(), []*drain.Delivery{delivery(fmt.Sprint(n), 1, true), delivery(fmt.Sprint(n), 2, false)}, time.Time{})
			})
		}
		<-time.After(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		got := outcomes(h.Handle(ctx, []*drain.Delivery{delivery("late", 1, true), delivery("late", 2, false)}, time.Now()))
		if !slices.Equal(got, []model.Outcome{model.Retry, model.Retry}) || eng.parked != nil {
			t.Errorf("a batch without memory ends with %v, parked %v", got, eng.parked)
		}
		sessions.Wait()
		if n := eng.max.Load(); n != claimBatches {
			t.Errorf("%d batches with events of the store were handled at the same time, want %d", n, claimBatches)
		}
		if !h.claims.TryAcquire(claimBatches) {
			t.Error("memory is not given back")
		}
	})
}

// A claim check whose read hangs is parked when it hangs for the second time. Meanwhile the events
// of its neighbours are applied, and claim checks that had no time are retried.
func TestHangingClaimCheckDoesNotStopItsNeighbours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		eng := &fakeEngine{}
		h := newHandler(eng, func(ctx context.Context, ev *event.Event) (*event.Event, error) {
			if ev.EventID != 1 {
				return ev, nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		h.log = zerolog.New(&log)
		batch := []*drain.Delivery{delivery("hangs", 1, true), delivery("free", 2, false), delivery("later", 3, true)}
		for _, test := range []struct {
			since  time.Time
			hangs  model.Outcome
			parked []int64
		}{
			{time.Time{}, model.Retry, nil},
			{time.Now(), model.Done, []int64{1}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), drain.HandleTimeout)
			start := time.Now()
			got := outcomes(h.Handle(ctx, batch, test.since))
			if want := []model.Outcome{test.hangs, model.Done, model.Retry}; !slices.Equal(got, want) || !slices.Equal(eng.parked[projection.ReasonUnavailable], test.parked) {
				t.Errorf("outcomes %v, want %v; parked %v", got, want, eng.parked)
			}
			if took := time.Since(start); took > redeemTimeout {
				t.Errorf("the call took %s", took)
			}
			cancel()
		}
		if !strings.Contains(log.String(), "claim check not redeemed") {
			t.Errorf("logged: %q", log.String())
		}
	})
}

// blockingEngine blocks until its context ends.
type blockingEngine struct {
	fakeEngine
	dated bool
	cause error
}

func (e *blockingEngine) Process(ctx context.Context, events []*event.Event, _ time.Time) ([]model.Verdict, error) {
	_, e.dated = ctx.Deadline()
	<-ctx.Done()
	e.cause = context.Cause(ctx)
	return make([]model.Verdict, len(events)), e.cause
}

// TestCallEndsInTimeWithoutADeadline checks that a call ends when its time is up, and that
// the context has no deadline: with one, the driver would retry until then without a pause.
func TestCallEndsInTimeWithoutADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng := &blockingEngine{}
		var log bytes.Buffer
		h := &handler{engine: eng, log: zerolog.New(&log)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		verdicts := h.Handle(ctx, []*drain.Delivery{delivery("a", 1, false)}, time.Time{})
		if took := time.Since(start); took != time.Second || verdicts[0].Outcome != model.Retry {
			t.Errorf("after %s %+v", took, verdicts)
		}
		if eng.dated || !errors.Is(eng.cause, context.DeadlineExceeded) {
			t.Errorf("deadline: %v, ended by %v", eng.dated, eng.cause)
		}
		if !strings.Contains(log.String(), "not projected") {
			t.Errorf("logged: %q", log.String())
		}
		log.Reset()
		ctx, lose := context.WithCancelCause(t.Context())
		lose(drain.ErrLockLost)
		if h.Handle(ctx, []*drain.Delivery{delivery("a", 1, false)}, time.Time{}); log.Len() > 0 {
			t.Errorf("logged after the session was lost: %q", log.String())
		}
	})
}
