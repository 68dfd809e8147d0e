package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/project"
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
	resumed    []string
}

func (f *foldingStore) targets() []project.Target {
	var targets []project.Target
	for i, d := range []project.Declaration{{Name: "users", AggregateType: "User"}, {Name: "all"}, {Name: "log"}} {
		d.Collection, d.Version = d.Name, "1"
		d.Apply = func(state project.State, _ *event.Event) (project.State, error) { return state, nil }
		p, err := project.New(d)
		if err != nil {
			f.t.Fatal(err)
		}
		targets = append(targets, project.Target{Projection: p, Generation: int64(i + 1), Collection: d.Name})
	}
	return targets
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

func (f *foldingStore) resume(_ context.Context, s project.Suspended) (project.Resumed, error) {
	f.resumed = append(f.resumed, fmt.Sprintf("%s/%d", s.Projection, s.Generation))
	if s.Projection == f.unreadable {
		return project.Resumed{Cause: &project.Error{Reason: project.ReasonUnavailable, Err: errors.New("no primary")}}, nil
	}
	next := min(f.watermarks[s.Projection]+f.page, f.has, s.Head)
	if next <= f.watermarks[s.Projection] && next < s.Head {
		return project.Resumed{Watermark: next, Cause: &project.Error{Reason: project.ReasonMissing, Err: errors.New("not stored")}}, nil
	}
	f.watermarks[s.Projection] = max(next, f.watermarks[s.Projection])
	return project.Resumed{Watermark: f.watermarks[s.Projection]}, nil
}

// TestDeadLettersAreFolded checks that a dead letter may be removed only when every
// projection that its aggregate concerns has the event.
func TestDeadLettersAreFolded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store   foldingStore
		kind    string
		healed  bool
		fails   bool
		resumed []string
	}{
		"page by page": {foldingStore{page: 4, has: 10}, "Order", true, false, []string{"all/2", "all/2", "all/2", "log/3", "log/3", "log/3"}},
		"an aggregate type with its own projection": {foldingStore{page: 10, has: 10}, "User", true, false, []string{"users/1", "all/2", "log/3"}},
		"parked in one projection":                  {foldingStore{page: 10, has: 10, parked: "log"}, "Order", false, false, []string{"all/2"}},
		"not in the event store":                    {foldingStore{page: 10, has: 8}, "Order", false, false, []string{"all/2", "all/2"}},
		"a store that cannot answer":                {foldingStore{page: 10, has: 10, unreadable: "all"}, "Order", false, true, []string{"all/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := test.store
			store.t, store.watermarks = t, map[string]int64{}
			healed, err := applier{store.targets, store.resume, &store}.Apply(t.Context(), deadletter.Aggregate{ID: "a", Type: test.kind}, 10)
			if healed != test.healed || (err != nil) != test.fails || !slices.Equal(store.resumed, test.resumed) {
				t.Errorf("healed %v after %v, error %v", healed, store.resumed, err)
			}
		})
	}
}
