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
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// callTime is how long draining lets a call take.
const callTime = 10 * time.Second

// mortalStore and mortalParking end with their contexts, as MongoDB does.
type mortalStore struct{ *memory }

func (s mortalStore) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.memory.Write(ctx, writes)
}

type mortalParking struct{ *fakeParking }

func (p mortalParking) Park(ctx context.Context, parked []model.Marker) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.fakeParking.Park(ctx, parked)
}

// slowEngine has one projection whose events each take some time, and fail at an event.
func slowEngine(t *testing.T, each time.Duration, fails int64) (*engine.Engine, *memory, *fakeParking) {
	t.Helper()
	p, err := projection.New(projection.Declaration{Name: "p", Collection: "c", Apply: func(_ projection.State, ev *event.Event) (projection.State, error) {
		<-time.After(each)
		if ev.EventID == fails {
			return nil, errors.New("the event is wrong")
		}
		return testkit.FromJSON(fmt.Sprintf(`{"last":%d}`, ev.EventID)), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	store, parking := newMemory(), newFakeParking()
	eng := engine.New(engine.Options{Store: mortalStore{store}, Parking: mortalParking{parking}, Repairer: &history{}})
	if err := eng.Set(liveTargets([]*projection.Projection{p})); err != nil {
		t.Fatal(err)
	}
	return eng, store, parking
}

// TestEventThatTakesAllTheTimeIsParked checks that an event which fails only after the end
// of its call is not tried for ever.
func TestEventThatTakesAllTheTimeIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, _, parking := slowEngine(t, callTime+time.Second, 1)
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		defer cancel()
		results, _ := eng.Process(ctx, []*event.Event{projectiontest.Event(1, "E", "")}, fresh)
		if len(parking.parked) != 1 || results[0].Outcome != model.Done {
			t.Errorf("%d aggregates are parked, the event is %s", len(parking.parked), verdicts(results))
		}
	})
}

// TestSlowEventsAreWrittenBeforeTheCallEnds offers more slow events than a call has time
// for, of one aggregate and of many.
func TestSlowEventsAreWrittenBeforeTheCallEnds(t *testing.T) {
	for _, aggregates := range []int{1, 12} {
		synctest.Test(t, func(t *testing.T) {
			eng, store, _ := slowEngine(t, 2*time.Second, 0)
			var events []*event.Event
			for i := range 12 {
				ev := projectiontest.Event(int64(i/aggregates)+1, "E", "")
				ev.AggregateID = fmt.Sprint(i % aggregates)
				events = append(events, ev)
			}
			calls, results := 0, []model.Verdict(nil)
			for ; calls < 6 && strings.Contains(verdicts(results), "retry") || results == nil; calls++ {
				ctx, cancel := context.WithTimeout(t.Context(), callTime)
				results, _ = eng.Process(ctx, events, fresh)
				cancel()
			}
			for u, w := range store.marks {
				if w != int64(12/aggregates) {
					t.Errorf("after %d calls, %s has the events up to %d", calls, u.AggregateID, w)
				}
			}
			if len(store.marks) != aggregates {
				t.Errorf("after %d calls, %d aggregates are written", calls, len(store.marks))
			}
		})
	}
}
