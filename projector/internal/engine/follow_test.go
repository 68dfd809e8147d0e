package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// TestBuildingGenerationDoesNotDelayTheLiveOne checks that a shadow collection that fails
// delays no event. While the build job runs, the event is left to it; afterwards the aggregate
// is parked in the building generation, and resumes.
func TestBuildingGenerationDoesNotDelayTheLiveOne(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"load", "write", "conflict"} {
		for _, defers := range []bool{true, false} {
			b := newRebuild(t, defers)
			b.breakShadow(broken)
			b.process(t, events(t, "one", "1 Add"), model.Hold, "done")
			b.expectMarks(t, 1, 0)
			cause := b.parking.parked[building]
			switch {
			case defers && len(b.parking.parked) > 0:
				t.Errorf("%s: parked %v", broken, b.parking.parked)
			case !defers && (len(b.parking.parked) != 1 || cause == nil || cause.EventID != 1 || cause.Reason != projection.ReasonUnavailable):
				t.Errorf("%s: parked %v", broken, b.parking.parked)
			}
		}
	}
}

// TestLiveGenerationWaitsForAnUndecidedNextOne checks that readers see no event that the next
// generation neither has nor is parked before.
func TestLiveGenerationWaitsForAnUndecidedNextOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		broken, events  string
		has             int64
		change          func(b *bench)
		list, reachable error
	}{
		"the list fails for a gap":     {events: "9 Add", has: 8, list: errTrouble},
		"the parking list fails":       {broken: "write", events: "1 Add", list: errTrouble},
		"a poison event cannot park":   {events: "1 Bad", list: errTrouble},
		"nothing else can be written":  {broken: "write", events: "1 Add", reachable: errTrouble},
		"another process is faster":    {broken: "stale", events: "1 Add"},
		"the generation is superseded": {events: "1 Add", change: func(b *bench) { b.down = map[string]error{shadow: model.ErrSuperseded} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRebuild(t, false, func(o *engine.Options) {
				o.Reachable = func(context.Context) error { return test.reachable }
			})
			b.breakShadow(test.broken)
			if test.has > 0 {
				b.marks[live], b.documents[live] = test.has, bsontest.FromJSON(`{"n":1}`)
			}
			if test.change != nil {
				test.change(b)
			}
			for _, attempt := range []model.Attempt{model.Hold, model.GiveUp} {
				b.parking.fail = test.list
				if results, err := b.Process(t.Context(), events(t, "one", test.events), attempt); err == nil || verdicts(results) != "retry" {
					t.Errorf("%s, %v", verdicts(results), err)
				}
			}
			b.expectMarks(t, test.has, 0)
			if len(b.parking.parked) > 0 {
				t.Errorf("parked %v", b.parking.parked)
			}
		})
	}
}

// silent is a store that does not answer about the second generation. Its requests end with
// their contexts.
type silent struct{ *memory }

func (s silent) Load(ctx context.Context, units []model.Unit) ([]model.State, error) {
	if units[0].Generation == 2 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.memory.Load(ctx, units)
}

// TestLiveGenerationIsNotDelayedByASilentNextOne checks that a collection or an event store that
// does not answer for a building generation parks the aggregate there, in time for the live one.
func TestLiveGenerationIsNotDelayedByASilentNextOne(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(o *engine.Options)
		first  int64
		// only is set if the event does not concern the live generation.
		only bool
	}{
		{name: "store, without a live one", only: true, change: func(o *engine.Options) {
			o.Store, o.Targets[0].Projection = silent{o.Store.(*memory)}, declared(t, `Else: {inc: {n: 1}}`)
		}, first: 1},
		{name: "store", change: func(o *engine.Options) { o.Store = silent{o.Store.(*memory)} }, first: 1},
		{name: "event store", change: func(o *engine.Options) { o.Repairer = silentHistory{} }, first: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newRebuild(t, false, test.change)
			if test.first > 1 {
				b.marks[live], b.documents[live] = test.first-1, bsontest.FromJSON(`{"n":1}`)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			begun := time.Now()
			results, err := b.Process(ctx, events(t, "one", fmt.Sprint(test.first, " Add")), model.Hold)
			if took := time.Since(begun); err != nil || verdicts(results) != "done" || took > 5*time.Second {
				t.Errorf("%s: %s after %v, %v", test.name, verdicts(results), took, err)
			}
			if b.marks[live] != test.first && !test.only || b.marks[building] > 0 {
				t.Errorf("%s: watermarks %d and %d", test.name, b.marks[live], b.marks[building])
			}
			if cause := b.parking.parked[building]; cause == nil || cause.Reason != projection.ReasonUnavailable {
				t.Errorf("%s: parked %v", test.name, b.parking.parked)
			}
		})
	}
}

// silentHistory is an event store that does not answer.
type silentHistory struct{}

func (silentHistory) Missing(ctx context.Context, _ *event.Event, _, _ int64, _ int) ([]*event.Event, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// breakShadow makes the shadow collection fail.
func (b *bench) breakShadow(how string) {
	switch how {
	case "load":
		b.down = map[string]error{shadow: errTrouble}
	case "write", "conflict", "stale":
		status := map[string]model.Status{"write": model.Unknown, "conflict": model.Conflict, "stale": model.Stale}[how]
		b.onWrite = func(_ int, w model.Write) *model.Written {
			if w.Generation == 2 {
				return &model.Written{Status: status, Err: errTrouble}
			}
			return nil
		}
	}
}

// TestLiveGenerationFollowsTheNextOne checks the order of the writes: an event that readers have
// seen must not disappear at a promotion.
func TestLiveGenerationFollowsTheNextOne(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sequence event.Sequence
		defers   bool
		stored   []string
		want     string
	}{
		{sequence: event.SequenceStrict, want: "2 1"},
		{sequence: event.SequenceStrict, stored: []string{"1 Add", "2 Add"}, want: "2 1"},
		{sequence: event.SequenceIncreasing, stored: []string{"1 Add", "2 Add"}, want: "2 1"},
		// It is not promoted while it defers, so the live one does not wait.
		{sequence: event.SequenceStrict, defers: true, want: "1 2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newRebuild(t, test.defers, func(o *engine.Options) { o.Sequence = test.sequence })
			first := "1 Add"
			if test.stored != nil {
				b.history.events, first = events(t, "one", test.stored...), "2 Add"
				b.marks[live], b.documents[live] = 1, bsontest.FromJSON(`{"n":1}`)
			}
			b.slow = func(u model.Unit) {
				if u.Generation == 2 {
					<-time.After(time.Second)
				}
			}
			b.process(t, events(t, "one", first), model.Hold, "done")
			var order []string
			for _, writes := range b.writes {
				order = append(order, fmt.Sprint(writes[0].Generation))
				if writes[0].Building != (writes[0].Generation == 2) {
					t.Errorf("the write of generation %d says building: %v", writes[0].Generation, writes[0].Building)
				}
			}
			if got := strings.Join(order, " "); got != test.want {
				t.Errorf("%s, defers %v, %d stored: generations are written in the order %s, want %s", test.sequence, test.defers, len(test.stored), got, test.want)
			}
		})
	}
}
