package e2e_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestCancelledRebuildStaysCancelledUntilTheCommand checks that an operator can cancel a
// rebuild. The live generation continues, and the shadow collection is removed. No pod that
// declares the definition, not even a new one, builds it again before the command.
func TestCancelledRebuildStaysCancelledUntilTheCommand(t *testing.T) {
	scene(t, cancelledRebuildStaysCancelledUntilTheCommand)
}

func cancelledRebuildStaysCancelledUntilTheCommand(t *testing.T) {
	t.Helper()
	s := newTallies(t, tally("tallies", "tallies", 1))
	s.start(1, 1)
	s.store(5)
	s.complete("tallies", 1)
	if _, stderr := s.projectorCommand(1, "projections", "cancel", "tallies", "--yes"); !strings.Contains(stderr, "projection tallies builds no generation") {
		t.Errorf("nothing to cancel: %s", stderr)
	}
	end := s.watch("tallies")

	file := s.declare(tally("tallies", "tallies", 2), "PENSTOCK_REFOLD_RATE=5")
	s.startProjector(1)
	s.reaches("building")
	if _, stderr := s.projectorCommand(1, "projections", "cancel", "tallies"); !strings.Contains(stderr, "give up generation 2 of projection tallies, which is building") {
		t.Errorf("without --yes: %s", stderr)
	}
	if stdout, _ := s.projectorCommand(0, "projections", "cancel", "tallies", "--yes", "--why=wrong factor"); !strings.Contains(stdout, "generation 1 stays live") {
		t.Errorf("cancelled: %s", stdout)
	}
	s.await("the shadow collection dropped", func() bool {
		names, err := s.models.ListCollectionNames(t.Context(), bson.D{{Key: "name", Value: bson.Regex{Pattern: "generation"}}})
		e := s.entry("tallies")
		return err == nil && len(names) == 0 && len(e.Garbage) == 1 && e.Garbage[0].Removed != nil
	})
	// A starting pod decides about builds before it is ready.
	s.startProjector(2)
	s.ready()
	s.store(1)
	s.complete("tallies", 1)
	if e := s.entry("tallies"); e.Building != nil || e.Live.Generation != 1 {
		t.Errorf("after the cancellation the catalog has %+v", e)
	}
	list := s.projectorList("projections", "list")
	if givenUp, ok := list[0]["givenUp"].(map[string]any); !ok || givenUp["why"] != "wrong factor" || list[0]["state"] != "live" {
		t.Errorf("listed as %v", list)
	}
	for _, job := range s.projectorList("jobs", "list", "--kind=build") {
		if job["state"] != "cancelled" {
			t.Errorf("the build continues: %v", job)
		}
	}

	s.declare(tally("tallies", "tallies", 2), "PENSTOCK_REFOLD_RATE=100000")
	s.startProjector(3)
	s.projectorCommand(0, "projections", "rebuild", "tallies", "--yes", "--projections="+file)
	s.live("tallies", 3)
	end()
	s.store(1)
	s.complete("tallies", 2)
	if changes := s.projectorList("audit", "--command=projections"); len(changes) != 2 {
		t.Errorf("the audit has %v", changes)
	}
}
