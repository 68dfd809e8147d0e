package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// TestProjectorKilledUnderLoad runs over real brokers too, unlike the random histories, in which
// projectors are killed at any moment.
func TestProjectorKilledUnderLoad(t *testing.T) { scene(t, projectorKilledUnderLoad) }

func projectorKilledUnderLoad(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.WithViews(events, 11))
	s.start(1, 2)
	s.load(4 * time.Second)
	for n, share := range []float64{0.2, 0.5} {
		s.awaitPublished(share)
		s.process(fmt.Sprintf("projector-%d", n)).Kill()
		s.startProjector(n)
	}
	s.invariants()
}

// A projector that is killed while it builds a generation, and starts again under its identity,
// continues at once: it knows that its predecessor has ended. Without that, the ranges and the
// registration of the predecessor would last for half a minute.
func TestProjectorThatRestartsContinuesItsRebuildAtOnce(t *testing.T) {
	needsProcesses(t)
	t.Parallel()
	s := newTallies(t, tally("tallies", "tallies", 1))
	s.env["projector-0"] = []string{"PENSTOCK_IDENTITY=projector-0"}
	s.start(1, 1)
	s.store(3)
	s.complete("tallies", 1)
	projector := func() *harness.Process { return s.projectors()[0] }
	s.stopped(projector())

	s.declare(tally("tallies", "tallies", 2), "PENSTOCK_REFOLD_RATE=20")
	s.startProjector(0)
	ranges := s.state.Collection("job_ranges")
	for range 2 {
		var before, after struct {
			ID         string `bson:"_id"`
			Holder     string
			LeaseUntil time.Time `bson:"leaseUntil"`
			Done       bool
		}
		s.await("a range that is worked on", func() bool {
			return ranges.FindOne(t.Context(), bson.D{{Key: "done", Value: false}, {Key: "holder", Value: bson.D{{Key: "$gt", Value: ""}}}}).Decode(&before) == nil
		})
		projector().Kill()
		killed := time.Now()
		s.startProjector(0)
		s.await("the range continues", func() bool {
			err := ranges.FindOne(t.Context(), bson.D{{Key: "_id", Value: before.ID}}).Decode(&after)
			deleted := errors.Is(err, mongo.ErrNoDocuments) // The job is done.
			return deleted || err == nil && (after.Done || after.Holder != "" && after.Holder != before.Holder)
		})
		continued := time.Now()
		t.Logf("the range continued %v after the kill; its lease had %v left", continued.Sub(killed), before.LeaseUntil.Sub(killed))
		if continued.After(before.LeaseUntil) {
			t.Error("the range continued when its lease had ended")
		}
	}
	s.live("tallies", 2)
	s.complete("tallies", 2)
}
