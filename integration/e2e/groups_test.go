package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// heartbeats waits until the only registered projector has renewed its registration that
// many more times. It renews every 5 s.
func (s *tallies) heartbeats(more int64) {
	s.t.Helper()
	beat := func() int64 {
		var pods []struct{ Beat int64 }
		cursor, err := s.state.Collection("projectors").Find(s.t.Context(), bson.D{{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$until", "$$NOW"}}}}})
		if err == nil {
			err = cursor.All(s.t.Context(), &pods)
		}
		if err != nil || len(pods) != 1 {
			return 0
		}
		return pods[0].Beat
	}
	first := int64(0)
	s.await("one projector is registered", func() bool { first = beat(); return first > 0 })
	s.await(fmt.Sprintf("%d heartbeats", more), func() bool { return beat() >= first+more })
}

// TestProjectionOfAStoppedDeploymentIsKept runs two Deployments of projectors with
// different projections for one pipeline. While one is away for longer than a registration
// lasts, the other keeps that one's projection up to date. When it is back, nothing is
// built. A command retires the projection of a Deployment that is gone for good, but not
// while a projector declares the projection.
func TestProjectionOfAStoppedDeploymentIsKept(t *testing.T) {
	scene(t, projectionOfAStoppedDeploymentIsKept)
}

func projectionOfAStoppedDeploymentIsKept(t *testing.T) {
	t.Helper()
	s := newTallies(t, tally("tallies", "tallies", 1), "PENSTOCK_GROUP=shop/first")
	s.start(1, 1)
	s.store(1)
	s.complete("tallies", 1)
	s.declare(tally("totals", "totals", 3), "PENSTOCK_GROUP=shop/second")
	second := s.startProjector(1)
	s.live("totals", 1)
	s.complete("totals", 3)
	if _, said := s.projectorCommand(1, "projections", "retire", "totals", "--yes"); !strings.Contains(said, "declares projection totals") {
		t.Errorf("a declared projection is retired: %s", said)
	}

	s.stopped(second)
	s.store(1)
	s.complete("totals", 3)
	s.heartbeats(8) // 40 s: a registration lasts 30 s
	s.store(1)
	s.complete("totals", 3)
	if e := s.entry("totals"); e.RetiredAt != nil {
		t.Fatal("the projection was retired while its projectors were away")
	}

	second = s.startProjector(2)
	s.ready()
	s.store(1)
	s.complete("totals", 3)
	if e := s.entry("totals"); e.Live == nil || e.Live.Generation != 1 || e.Building != nil {
		t.Errorf("after its projectors are back, the entry is %+v", e)
	}
	s.stopped(second)
	s.projectorCommand(0, "projections", "retire", "totals", "--yes")
	if e := s.entry("totals"); e.RetiredAt == nil {
		t.Error("the command has not retired the projection")
	}
	if e := s.entry("tallies"); e.RetiredAt != nil || e.Live.Generation != 1 {
		t.Errorf("the other projection is %+v", e)
	}
}
