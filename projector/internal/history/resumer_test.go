package history_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// fake is a scripted list of markers, with scripted results of replays.
type fake struct {
	mu sync.Mutex
	// due are the markers that are claimed next.
	due []model.Claimed
	// replay answers for an aggregate. busy counts the running replays, and max is its
	// maximum.
	replay    func(ctx context.Context, s engine.Suspended) (engine.Resumed, error)
	busy, max int
	// head is the marker's head in Finish, which deletes the marker if head is not above
	// the watermark.
	head int64
	// failure is the error of Claim, Extend and Finish, if set.
	failure   error
	calls     []string
	postponed []model.Failure
	claims    int
}

// call records a call and returns the current error.
func (f *fake) call(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	return f.failure
}

func (f *fake) setError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
}

func (f *fake) Claim(context.Context, time.Duration) (model.Claimed, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims++
	if len(f.due) == 0 || f.failure != nil {
		return model.Claimed{}, false, f.failure
	}
	m := f.due[0]
	f.due = f.due[1:]
	return m, true, nil
}

func (f *fake) Extend(context.Context, model.Claimed, time.Duration) (int64, error) {
	return f.head, f.call("extend")
}

func (f *fake) Finish(_ context.Context, _ model.Claimed, watermark int64, _ time.Duration) (int64, error) {
	failure := f.call("finish")
	if f.head > watermark {
		return f.head, failure
	}
	return park.Finished, failure
}

func (f *fake) Postpone(_ context.Context, _ model.Claimed, failure model.Failure) error {
	_ = f.call("postpone")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.postponed = append(f.postponed, failure)
	return nil
}

func (f *fake) Return(ctx context.Context, _ model.Claimed, delay time.Duration) error {
	_ = f.call("return after " + delay.String())
	return ctx.Err()
}

func (f *fake) Resume(ctx context.Context, s engine.Suspended) (engine.Resumed, error) {
	f.mu.Lock()
	f.busy++
	f.max = max(f.max, f.busy)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.busy--
		f.mu.Unlock()
	}()
	return f.replay(ctx, s)
}

// start runs a resumer for the duration and returns its registry.
func (f *fake) start(t *testing.T, d time.Duration) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	r := history.NewResumer(history.ResumerOptions{Claims: f, Engine: f, Registerer: registry})
	stop := testkit.Start(t, r.Run)
	<-time.After(d)
	stop()
	return registry
}

func expect(t *testing.T, registry *prometheus.Registry, lost, parked, resumed, stuck string) {
	t.Helper()
	want := "# HELP penstock_projector_resumptions_total Attempts to resume a parked aggregate by result: resumed (it has caught up), stuck (it is retried later), parked (its next event can never be applied), lost (another process has the claim, or the parked list did not answer).\n" +
		"# TYPE penstock_projector_resumptions_total counter\n" +
		"penstock_projector_resumptions_total{result=\"lost\"} " + lost + "\n" +
		"penstock_projector_resumptions_total{result=\"parked\"} " + parked + "\n" +
		"penstock_projector_resumptions_total{result=\"resumed\"} " + resumed + "\n" +
		"penstock_projector_resumptions_total{result=\"stuck\"} " + stuck + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestInterruptedAggregateKeepsWhyItIsParked checks that an aggregate whose replay a promotion
// stops is tried again soon, and that the marker keeps its reason and its attempts.
func TestInterruptedAggregateKeepsWhyItIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{due: []model.Claimed{{Head: 4, Attempts: 3}}}
		f.replay = func(context.Context, engine.Suspended) (engine.Resumed, error) {
			return engine.Resumed{Cause: &projection.Error{EventID: 1, Reason: projection.ReasonUnavailable, Err: engine.ErrPaused}, Interrupted: true}, nil
		}
		registry := f.start(t, time.Second)
		if strings.Join(f.calls, " ") != "return after 2s" {
			t.Errorf("called %v", f.calls)
		}
		expect(t, registry, "0", "0", "0", "1")
	})
}

// TestReplayCatchesUpWithARisingHead checks that replaying continues while the head is above
// the watermark.
func TestReplayCatchesUpWithARisingHead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{due: []model.Claimed{{AggregateID: "7", Head: 4}}, head: 6}
		watermark := int64(0)
		f.replay = func(_ context.Context, s engine.Suspended) (engine.Resumed, error) {
			watermark = min(watermark+2, s.Head)
			return engine.Resumed{Watermark: watermark}, nil
		}
		expect(t, f.start(t, time.Second), "0", "0", "1", "0")
		if want := []string{"extend", "extend", "finish"}; !slices.Equal(f.calls, want) {
			t.Errorf("calls %v, want %v", f.calls, want)
		}
		f.calls, f.due, watermark = nil, []model.Claimed{{AggregateID: "7", Head: 2}}, 0
		expect(t, f.start(t, time.Second), "0", "0", "1", "0")
		if want := []string{"finish", "extend", "finish"}; !slices.Equal(f.calls, want) {
			t.Errorf("calls %v, want %v", f.calls, want)
		}
	})
}

// TestAggregateWithoutProgressIsPostponed checks that attempts are counted until one makes
// progress, and that a history without a beginning becomes final after several.
func TestAggregateWithoutProgressIsPostponed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{due: []model.Claimed{{AggregateID: "7", Head: 4, Attempts: 2}, {AggregateID: "8", Head: 4, Attempts: 2}, {AggregateID: "9", Head: 4, Attempts: 8}}, head: 4}
		var pages atomic.Int32
		f.replay = func(_ context.Context, s engine.Suspended) (engine.Resumed, error) {
			if s.AggregateID == "8" && pages.Add(1) == 1 {
				return engine.Resumed{Watermark: 1}, nil
			}
			if s.Final {
				return engine.Resumed{Parked: true, Cause: &projection.Error{Reason: projection.ReasonRejected}}, nil
			}
			return engine.Resumed{Cause: &projection.Error{Reason: projection.ReasonMissing, EventID: 2, Err: errors.New("")}}, nil
		}
		expect(t, f.start(t, time.Second), "0", "1", "0", "2")
		slices.SortFunc(f.postponed, func(a, b model.Failure) int { return a.Attempts - b.Attempts })
		want := []model.Failure{{Reason: "missing", EventID: 2, Attempts: 0}, {Reason: "missing", EventID: 2, Attempts: 3}}
		if !slices.Equal(f.postponed, want) {
			t.Errorf("postponed %+v", f.postponed)
		}
	})
}

// TestWorkersAreBoundedAndReturnTheirClaims checks that no more aggregates are claimed than
// workers are free, and that the claims are returned at the end.
func TestWorkersAreBoundedAndReturnTheirClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{due: make([]model.Claimed, 9)}
		f.replay = func(ctx context.Context, _ engine.Suspended) (engine.Resumed, error) {
			<-ctx.Done()
			return engine.Resumed{}, context.Cause(ctx)
		}
		f.start(t, time.Minute)
		if f.max != 4 || len(f.due) != 5 || !slices.Equal(f.calls, slices.Repeat([]string{"return after 0s"}, 4)) {
			t.Errorf("%d at a time, %d left, calls %v", f.max, len(f.due), f.calls)
		}
	})
}

// TestResumerSurvivesErrorsOfTheParkedList checks that while the parked list fails, it is
// asked every two seconds and not more often.
func TestResumerSurvivesErrorsOfTheParkedList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{failure: errors.New("no primary")}
		f.start(t, time.Minute)
		if f.claims < 10 || f.claims > 70 {
			t.Errorf("asked %d times in a minute", f.claims)
		}
		f.failure = nil
		f.due = []model.Claimed{{AggregateID: "7", Head: 2}}
		f.replay = func(context.Context, engine.Suspended) (engine.Resumed, error) {
			f.setError(errors.New("the claim is lost"))
			return engine.Resumed{Watermark: 1}, nil
		}
		expect(t, f.start(t, time.Millisecond), "1", "0", "0", "0")
	})
}
