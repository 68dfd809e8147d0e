package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// foldingStore is a parked list and an engine with three projections, one of which is for
// users only.
type foldingStore struct {
	t *testing.T
	// watermarks are by projection. page is how many events one call of Resume folds, and
	// has is the last event of the event store.
	watermarks map[string]int64
	page, has  int64
	parked     string
	unreadable string
	// builds says that the fourth generation of all is being built.
	builds  bool
	resumed []string
}

func (f *foldingStore) targets() []engine.Target {
	var targets []engine.Target
	for i, d := range []projection.Declaration{{Name: "users", AggregateType: "User"}, {Name: "all"}, {Name: "log"}} {
		d.Collection, d.Version = d.Name, "1"
		d.Apply = func(state projection.State, _ *event.Event) (projection.State, error) { return state, nil }
		p, err := projection.New(d)
		if err != nil {
			f.t.Fatal(err)
		}
		targets = append(targets, engine.Target{Projection: p, Generation: int64(i + 1), Collection: d.Name})
	}
	if f.builds {
		targets = append(targets, engine.Target{Projection: targets[1].Projection, Generation: 4, Collection: "all.generation-4", Building: true})
	}
	return targets
}

// applier returns an applier. The catalog also has a projection in Go for users, whose code
// this pod lacks.
func (f *foldingStore) applier() applier {
	return applier{
		targets: f.targets, engine: f, parked: f,
		entries: func() map[string]*generation.Entry {
			entries := make(map[string]*generation.Entry)
			for _, t := range f.targets() {
				entries[t.Projection.Name()] = &generation.Entry{Name: t.Projection.Name(), Live: &generation.Live{Generation: t.Generation, Definition: generation.Declare(t.Projection)[0].Definition}}
			}
			code := entries["users"].Live.Definition
			entries["code"] = &generation.Entry{Name: "code", Live: &generation.Live{Generation: 7, Definition: code}}
			return entries
		},
		watermarks: func(_ context.Context, units []model.Unit) ([]int64, error) {
			watermarks := make([]int64, len(units))
			for i, u := range units {
				if u.Generation != 7 {
					f.t.Errorf("read the watermark of %v, which this pod folds", u)
				}
				watermarks[i] = f.watermarks[u.Projection]
			}
			return watermarks, nil
		},
	}
}

func (f *foldingStore) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	positions := make([]model.Position, len(units))
	for i, u := range units {
		if u.Projection == f.parked {
			positions[i].EventID = 3
		}
	}
	return positions, nil
}

func (f *foldingStore) Resume(_ context.Context, s engine.Suspended) (engine.Resumed, error) {
	f.resumed = append(f.resumed, fmt.Sprintf("%s/%d", s.Projection, s.Generation))
	if s.Projection == f.unreadable {
		return engine.Resumed{Cause: &projection.Error{Reason: projection.ReasonUnavailable, Err: errors.New("no primary")}}, nil
	}
	next := min(f.watermarks[s.Projection]+f.page, f.has, s.Head)
	if next <= f.watermarks[s.Projection] && next < s.Head {
		return engine.Resumed{Watermark: next, Cause: &projection.Error{Reason: projection.ReasonMissing, Err: errors.New("not stored")}}, nil
	}
	f.watermarks[s.Projection] = max(next, f.watermarks[s.Projection])
	return engine.Resumed{Watermark: f.watermarks[s.Projection]}, nil
}

// TestDeadLettersAreFolded checks that a dead letter may be removed only when every
// projection that its aggregate concerns has the event, also one that only other pods fold.
func TestDeadLettersAreFolded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store   foldingStore
		kind    string
		code    int64
		healed  bool
		fails   bool
		resumed []string
	}{
		"page by page": {foldingStore{page: 4, has: 10}, "Order", 0, true, false, []string{"all/2", "all/2", "all/2", "log/3", "log/3", "log/3"}},
		"an aggregate type with its own projections": {foldingStore{page: 10, has: 10}, "User", 10, true, false, []string{"users/1", "all/2", "log/3"}},
		"behind in a projection of other pods":       {foldingStore{page: 10, has: 10}, "User", 9, false, false, []string{"users/1", "all/2", "log/3"}},
		"parked in a projection of other pods":       {foldingStore{page: 10, has: 10, parked: "code"}, "User", 10, false, false, []string{"users/1", "all/2", "log/3"}},
		"beside a build":                             {foldingStore{page: 10, has: 10, builds: true}, "Order", 0, true, false, []string{"all/4", "all/2", "log/3"}},
		"parked in one projection":                   {foldingStore{page: 10, has: 10, parked: "log"}, "Order", 0, false, false, []string{"all/2"}},
		"not in the event store":                     {foldingStore{page: 10, has: 8}, "Order", 0, false, false, []string{"all/2", "all/2"}},
		"a store that cannot answer":                 {foldingStore{page: 10, has: 10, unreadable: "all"}, "Order", 0, false, true, []string{"all/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := test.store
			store.t, store.watermarks = t, map[string]int64{"code": test.code}
			healed, err := store.applier().Apply(t.Context(), deadletter.Aggregate{ID: "a", Type: test.kind}, 10)
			if healed != test.healed || (err != nil) != test.fails || !slices.Equal(store.resumed, test.resumed) {
				t.Errorf("healed %v after %v, error %v", healed, store.resumed, err)
			}
		})
	}
}
