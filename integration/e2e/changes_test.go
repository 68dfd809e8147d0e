package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// tally declares a projection that counts its aggregates' events times a factor, and stores
// the factor. The factor shows by which definition a document was made.
func tally(name, collection string, factor int) string {
	return fmt.Sprintf("  - {name: %s, collection: %s, on: {Counted: {inc: {n: payload.n * %d}, set: {factor: \"%d\"}}}}\n", name, collection, factor, factor)
}

// tallies is a scenario whose projections change during the test.
type tallies struct {
	*scenario
	// next is the id of the last event of every aggregate.
	next int64
}

const tallied = 60

func newTallies(t *testing.T, declared string) *tallies {
	t.Helper()
	return &tallies{scenario: newScenarioOn(t, &workload.Workload{Projections: []byte("projections:\n" + declared)}, harness.TopicOptions{})}
}

// declare sets the projections of the processes that start from now on, and returns their
// file.
func (s *tallies) declare(declared string) (path string) {
	s.t.Helper()
	path = s.projectionsFile("projections:\n" + declared)
	s.SetEnv("PENSTOCK_PROJECTIONS=" + path)
	return path
}

// store stores the next event of every aggregate, the given number of times.
func (s *tallies) store(times int) {
	s.t.Helper()
	for range times {
		s.next++
		var events []workload.Event
		for i := range tallied {
			events = append(events, counted(fmt.Sprint("a-", i), s.next, bson.D{{Key: "n", Value: int64(1)}}))
		}
		s.insert(events...)
	}
}

// document is a read model of a tally.
type document struct {
	N, Factor, LastEventID int64
	LastGeneration         int64
}

// read reads a whole collection.
func (s *tallies) read(ctx context.Context, collection string) ([]document, error) {
	cursor, err := s.models.Collection(collection).Find(ctx, bson.D{}, options.Find().SetBatchSize(10*tallied))
	if err != nil {
		return nil, err
	}
	var all []document
	return all, cursor.All(ctx, &all)
}

// complete waits until a collection has every aggregate at its last event.
func (s *tallies) complete(collection string, factor int64) {
	s.t.Helper()
	s.await(fmt.Sprintf("collection %s complete with factor %d at event %d", collection, factor, s.next), func() bool {
		all, err := s.read(s.t.Context(), collection)
		for _, d := range all {
			if d.Factor != factor || d.LastEventID != s.next || d.N != factor*s.next {
				return false
			}
		}
		return err == nil && len(all) == tallied
	})
}

// entry is a projection's entry of the catalog.
type entry struct {
	Live *struct {
		Generation int64
		Collection string
	}
	Building *struct {
		Generation int64
		State      string
		Reason     string
	}
	RetiredAt *time.Time
	History   []struct{ Generation int64 }
}

func (s *scenario) entry(name string) entry {
	s.t.Helper()
	var e entry
	_ = s.state.Collection("projections").FindOne(s.t.Context(), bson.D{{Key: "_id", Value: name}}).Decode(&e)
	return e
}

// awaitLive waits until each projection has a live generation with at least that number,
// and none that is being built.
func (s *scenario) awaitLive(generations map[string]int64) {
	s.t.Helper()
	for name, number := range generations {
		s.await(fmt.Sprintf("generation %d of %s live", number, name), func() bool {
			e := s.entry(name)
			if e.Building != nil && e.Building.State == "failed" {
				s.t.Fatalf("the rebuild of %s has failed: %s", name, e.Building.Reason)
			}
			return e.Live != nil && e.Live.Generation >= number && e.Building == nil
		})
	}
}

// TestProjectionsAreAddedRenamedAndRetired checks that a new projection gets its history,
// and that readers do not see it before it is complete. A renamed projection gets the collection of
// its predecessor when that one is retired and dropped.
func TestProjectionsAreAddedRenamedAndRetired(t *testing.T) {
	scene(t, projectionsAreAddedRenamedAndRetired)
}

func projectionsAreAddedRenamedAndRetired(t *testing.T) {
	t.Helper()
	first, added := tally("tallies", "tallies", 1), tally("totals", "totals", 3)
	s := newTallies(t, first)
	s.start(1, 1)
	s.store(3)
	s.complete("tallies", 1)
	if e := s.entry("tallies"); e.Live == nil || e.Live.Generation != 1 || e.Building != nil {
		t.Errorf("over an empty event store the first generation was not live at once: %+v", e)
	}
	s.steps(step{"projector projections retire tallies --yes", 1, "declares projection tallies"})

	s.declare(first + added)
	old, second := s.Running(), s.startProjector(1)
	s.await("totals visible", func() bool {
		all, err := s.read(t.Context(), "totals")
		if err == nil && len(all) > 0 && len(all) != tallied {
			t.Fatalf("readers see %d documents of a new projection", len(all))
		}
		return len(all) == tallied
	})
	s.awaitLive(map[string]int64{"totals": 1})
	s.store(1)
	s.complete("totals", 3)
	s.complete("tallies", 1)

	renamed := first + tally("sums", "totals", 5)
	s.declare(renamed)
	s.refused(s.startProjector(2), `read model \"totals\" (projection: recorded \"totals\", now \"sums\")`, "projector projections drop")
	s.declare(first)
	s.startProjector(3)
	for _, process := range append(old, second) {
		if strings.HasPrefix(process.Name, "projector") {
			s.stopped(process)
		}
	}
	s.await("totals retired", func() bool { return s.entry("totals").RetiredAt != nil })
	s.projectorCommand(0, "projections", "drop", "totals", "--yes", "--why=renamed")
	s.declare(renamed)
	s.startProjector(4)
	s.awaitLive(map[string]int64{"sums": 1})
	s.store(1)
	s.complete("totals", 5)
}

// TestRebuildIsWatchedUntilItIsLive checks that commands follow the build of a changed
// projection, until the declared definition is live.
func TestRebuildIsWatchedUntilItIsLive(t *testing.T) {
	scene(t, rebuildIsWatchedUntilItIsLive)
}

func rebuildIsWatchedUntilItIsLive(t *testing.T) {
	t.Helper()
	s := newTallies(t, tally("tallies", "tallies", 1))
	s.start(1, 1)
	s.store(2)
	s.complete("tallies", 1)
	declared := "--projections=" + s.declare(tally("tallies", "tallies", 2))
	s.startProjector(1)
	if stdout, _ := s.projectorCommand(0, "projections", "watch", "--until-live", declared); !strings.HasPrefix(stdout, "projection tallies: ") || !strings.HasSuffix(stdout, " is live\n") {
		t.Errorf("the declared definition was awaited with\n%s", stdout)
	}
	s.awaitLive(map[string]int64{"tallies": 2})
	if stdout, _ := s.projectorCommand(0, "projections", "watch", "tallies"); !strings.Contains(stdout, fmt.Sprintf("generation %d", s.entry("tallies").Live.Generation)) || !strings.HasSuffix(stdout, " is live\n") {
		t.Errorf("the rebuild was followed with\n%s", stdout)
	}
	other := "--projections=" + s.projectionsFile("projections:\n"+tally("tallies", "tallies", 3))
	if stdout, stderr := s.projectorCommand(1, "projections", "watch", "tallies", "--until-live", "--timeout=1s", other); !strings.Contains(stdout, "no projector has declared this definition yet") || !strings.Contains(stderr, "not live after 1s (--timeout)") {
		t.Errorf("another definition is awaited with\n%s%s", stdout, stderr)
	}
	s.store(1)
	s.complete("tallies", 2)
}
