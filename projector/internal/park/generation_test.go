package park_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// TestGenerationsHaveTheirOwnMarkers checks that each generation of a projection has its
// own markers, that the first generation can be 0 or 1, and that a process resumes only
// the generations that it serves.
func TestGenerationsHaveTheirOwnMarkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		second, third := seven, seven
		second.Generation, third.Generation = 2, 3
		c := newCollection(t)
		s := newStore(c, park.Options{}, park.Served{Projection: "users"})
		parkOne(t, s, model.Marker{Unit: seven, Reason: "missing", EventID: 3, Head: 3, Resumes: true})
		parkOne(t, s, model.Marker{Unit: second, Reason: "missing", EventID: 4, Head: 4, Resumes: true})

		named := seven
		named.Generation = 1
		positions, err := s.Parked(t.Context(), []model.Unit{seven, named, second, third})
		if err != nil || positions[0].EventID != 3 || positions[1].EventID != 3 || positions[2].EventID != 4 || positions[3].EventID != 0 {
			t.Errorf("parked at %v, %v", positions, err)
		}
		if err := s.Advance(t.Context(), []model.Head{{Unit: third, EventID: 5}}); !errors.Is(err, park.ErrNotParked) {
			t.Errorf("advanced a generation that is not parked: %v", err)
		}
		if err := s.Advance(t.Context(), []model.Head{{Unit: second, EventID: 6}}); err != nil || c.Marker(seven)["head"] != int64(3) {
			t.Errorf("advanced the second generation to %v: %v", c.Marker(seven), err)
		}

		<-time.After(time.Minute)
		first := claim(t, s)
		if first.Generation != 1 || first.Head != 3 {
			t.Errorf("claimed %+v", first)
		}
		if _, ok, err := s.Claim(t.Context(), lease); ok || err != nil {
			t.Errorf("claimed a generation that is not served, %v", err)
		}
		s.Serve([]park.Served{{Projection: "users", Generation: 2}})
		claimed := claim(t, s)
		if claimed.Generation != 2 || claimed.Head != 6 {
			t.Errorf("claimed %+v", claimed)
		}
		if head, err := s.Finish(t.Context(), claimed, 6, lease); head != park.Finished || err != nil || c.Marker(seven) == nil {
			t.Errorf("finished the second generation: head %d, %v, the marker of the first is %v", head, err, c.Marker(seven))
		}
		s.Serve(nil)
		<-time.After(2 * lease)
		if _, ok, err := s.Claim(t.Context(), lease); ok || err != nil {
			t.Errorf("claimed although nothing is served, %v", err)
		}
	})
}

func TestForgetDeletesTheMarkersOfOneGeneration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 1500 // more than a page
		s := newStore(newCollection(t), park.Options{}, park.Served{Projection: "users"})
		markers := make([]model.Marker, many)
		for i := range markers {
			u := seven
			u.Generation, u.AggregateID = 2, fmt.Sprint(i)
			markers[i] = model.Marker{Unit: u, Reason: "missing", EventID: 1, Head: 1}
		}
		if err := s.Park(t.Context(), markers); err != nil {
			t.Fatal(err)
		}
		parkOne(t, s, model.Marker{Unit: seven, Reason: "missing", EventID: 3, Head: 3})
		if n, err := s.Forget(t.Context(), park.Served{Projection: "users", Generation: 2}); n != many || err != nil {
			t.Errorf("%d markers deleted, %v", n, err)
		}
		if n, err := s.Matching(t.Context(), park.Filter{}); n != 1 || err != nil {
			t.Errorf("%d markers are left, %v", n, err)
		}
	})
}
