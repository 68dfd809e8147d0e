package catalog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// inSimulation runs a test with one coordinator that has just started to build a second
// definition.
func inSimulation(t *testing.T, test func(r *run)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &run{simulation: newSimulation()}
		r.decide("a")
		r.start()
		for _, p := range r.pods {
			r.poll(p)
		}
		r.decide("b")
		defer func() {
			for _, c := range r.coordinators {
				c.kill()
			}
		}()
		test(r)
		if r.broken != nil {
			t.Error(r.broken)
		}
	})
}

// pass lets time pass for the coordinators while pods and jobs do nothing.
func (r *run) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, c := range r.coordinators {
			for c.step() {
			}
		}
		r.see()
		<-time.After(100 * time.Millisecond)
	}
}

// idle lets time pass while no event comes.
func (r *run) idle(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		r.pass(time.Second)
		for _, p := range r.pods {
			r.poll(p)
		}
	}
}

func (r *run) state() catalog.State {
	if r.entry().Building == nil {
		return ""
	}
	return r.entry().Building.State
}

// If the MongoDB user lacks a privilege that a rebuild needs, the catalog shows the
// reason to operators. The rebuild continues as soon as the user has the privilege.
func TestErrorOfAStepIsInTheCatalog(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.refusal = mongo.CommandError{Code: 13, Message: "not authorized on readmodels"}
		r.pass(5 * time.Second)
		if b := r.entry().Building; b == nil || b.State != catalog.Building || !strings.Contains(b.Reason, "not authorized on readmodels") {
			t.Errorf("the generation is %+v", b)
		}
		r.refusal = nil
		r.settle(catalog.CatchingUp)
		if reason := r.entry().Building.Reason; strings.Contains(reason, "not authorized") {
			t.Errorf("the reason stays: %s", reason)
		}
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Error("the rebuild did not continue: generation 2 is not live")
		}
	})
}

// A pod that does not serve the new generation yet settles events without it. The sweep must
// begin after the last of these events, so it waits for the pod.
func TestSweepWaitsUntilEveryPodServesTheGeneration(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.CatchingUp)
		slow := &pod{name: "slow"}
		r.pods["slow"] = slow
		for _, p := range r.pods {
			r.poll(p)
		}
		r.pass(2 * time.Second)
		if b := r.entry().Building; b.Jobs.Sweep != "" || b.Reason != "pods that do not serve the generation yet: slow" {
			t.Errorf("the generation is %s (%s) with the sweep %q", b.State, b.Reason, b.Jobs.Sweep)
		}
		r.poll(slow)
		r.pass(2 * time.Second)
		if b := r.entry().Building; b.Jobs.Sweep == "" {
			t.Errorf("the generation is %s (%s) without a sweep although all pods serve it", b.State, b.Reason)
		}
	})
}

// The writes pause only when every pod reads the catalog often. An aggregate that is parked for a
// moment does not end that. If the promotion waits for longer, the pods read it seldom again.
func TestPromotionIsAnnounced(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.Verifying)
		r.pass(time.Second)
		r.work(0, 0)
		r.pass(time.Second)
		if b := r.entry().Building; b.State != catalog.Verifying || b.Pause == "" {
			t.Errorf("not announced: the generation is %+v", b)
		}
		r.parked = 1
		r.idle(30 * time.Second)
		if b := r.entry().Building; b.State != catalog.Verifying || b.Pause == "" {
			t.Errorf("not announced any more: the generation is %+v", b)
		}
		r.idle(time.Minute)
		if b := r.entry().Building; b.State != catalog.Verifying || b.Pause != "" {
			t.Errorf("still announced: the generation is %+v", b)
		}
		r.parked = 0
		r.pass(3 * time.Second)
		if r.state() != catalog.Verifying {
			t.Errorf("the generation is %s too early", r.state())
		}
		r.pass(2 * time.Second)
		if r.state() != catalog.Promoting {
			t.Errorf("the generation is %s 5 s after nothing prevents its promotion", r.state())
		}
	})
}

func TestPromotionWaitsForEveryAlivePod(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		inSimulation(t, func(r *run) {
			slow := &pod{name: "slow"}
			r.pods["slow"] = slow
			r.settle(catalog.Promoting)
			if slow.dead = dies; dies {
				r.settle("") // Its lease ends.
			} else {
				for _, p := range r.pods {
					if p != slow {
						r.poll(p)
					}
				}
				r.pass(2 * time.Second)
				if r.state() != catalog.Promoting || r.collections["users.generation-2"] == nil {
					t.Fatalf("the generation is %q while a pod writes", r.state())
				}
				r.poll(slow)
				r.pass(time.Second)
			}
			if r.state() != "" || r.entry().Live.Generation != 2 {
				t.Errorf("the generation is %q when all have paused (one dies: %t)", r.state(), dies)
			}
		})
	}
}

// suspend takes the coordinator out of the run after some of its steps, when all pods have looked.
func (r *run) suspend(steps int, every time.Duration) *coordinator {
	for _, p := range r.pods {
		r.poll(p)
	}
	suspended := r.coordinators[0]
	for range steps {
		for !suspended.step() {
			<-time.After(every)
		}
	}
	r.coordinators = nil
	r.abandon(suspended)
	return suspended
}

// A coordinator is suspended at any point of a promotion. Its successor promotes the
// generation, and a suspended pod creates a collection under the name that the new one had.
// When the coordinator continues, it may rename that collection, but must not promote it.
func TestSuspendedCoordinatorPromotesNoOtherCollection(t *testing.T) {
	t.Parallel()
	for steps, promoted := 0, false; !promoted && !t.Failed(); steps++ {
		inSimulation(t, func(r *run) {
			r.settle(catalog.Promoting)
			suspended := r.suspend(steps, 100*time.Millisecond)
			promoted = r.state() == ""
			r.start()
			r.settle("")
			r.create("users.generation-2")
			r.coordinators = append(r.coordinators, suspended)
			r.pass(5 * time.Second)
			if r.state() != "" || r.entry().Live.Generation != 2 || r.collections[readers].generation != 2 {
				t.Errorf("suspended after %d steps: the generation is %q, and readers see %+v", steps, r.state(), r.collections[readers])
			}
		})
	}
}

// A coordinator is suspended after all pods have paused. Its successor cannot know whether it will
// rename, so it waits for a pod that does not pause instead of letting the pods write again.
func TestPromotionThatWasTakenOverIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	for steps, promoted := 0, false; !promoted && !t.Failed(); steps++ {
		inSimulation(t, func(r *run) {
			r.settle(catalog.Promoting)
			r.pass(500 * time.Millisecond)
			suspended := r.suspend(steps, 10*time.Millisecond)
			promoted = r.state() == ""
			slow := &pod{name: "slow"}
			r.pods["slow"] = slow
			r.poll(slow)
			r.start()
			for range 5 {
				r.pass(time.Second)
				for _, p := range r.pods {
					if p != slow {
						r.poll(p)
						r.project(p)
						r.project(p)
					}
				}
			}
			if !promoted && r.state() != catalog.Promoting {
				t.Errorf("suspended after %d steps: the generation is %q although a pod writes", steps, r.state())
			}
			r.coordinators = append(r.coordinators, suspended)
			r.pass(time.Second)
			r.settle("")
			if r.entry().Live.Generation != 2 {
				t.Errorf("suspended after %d steps: live is %+v", steps, r.entry().Live)
			}
		})
	}
}

// An application can insert a document while the rename is refused.
func TestPromotionThatWasRefusedDeletesNoDocumentOfAnApplication(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.refused = mongo.CommandError{Code: 13, Message: "not authorized"}
		r.settle(catalog.Promoting)
		r.refused, r.unmanaged = nil, errors.New("a document of an application")
		r.settle(catalog.Promoting)
		if b := r.entry().Building; b == nil || b.State != catalog.Verifying || b.Reason != r.unmanaged.Error() {
			t.Errorf("the generation is %+v", b)
		}
	})
}

// The collection of readers can have many millions of documents.
func TestLongInspectionDoesNotPreventThePromotion(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.inspection = 2 * time.Minute
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Errorf("the generation is %+v", r.entry().Building)
		}
	})
}

// What prevents a promotion can stay for days. Both searches read many documents.
func TestGenerationThatIsHeldBackIsRarelyExamined(t *testing.T) {
	t.Parallel()
	for name, holdBack := range map[string]func(r *run){
		"parked":    func(r *run) { r.parked, r.counting = 1, time.Second },
		"unmanaged": func(r *run) { r.unmanaged, r.inspection = errors.New("a document of an application"), time.Minute },
	} {
		inSimulation(t, func(r *run) {
			r.settle(catalog.Verifying)
			r.pass(time.Second)
			r.work(0, 0)
			holdBack(r)
			r.counted, r.inspections = 0, 0
			r.idle(2 * time.Minute)
			counted := r.counted
			r.idle(13 * time.Minute)
			if name == "parked" && counted > 7 || r.inspections > 2 {
				t.Errorf("%s: %d counts in 2 minutes, %d inspections in 15 minutes", name, counted, r.inspections)
			}
			r.unmanaged, r.inspection = nil, 0
			for range 20 {
				r.settle("")
			}
			if r.entry().Live.Generation != 2 {
				t.Errorf("%s: not promoted: %+v", name, r.entry().Building)
			}
		})
	}
}

func TestPromotionThatWasTakenOverDeletesNoDocumentOfAnApplication(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.Promoting)
		r.unmanaged = errors.New("a document of an application")
		suspended := r.coordinators[0]
		r.coordinators = nil
		r.abandon(suspended)
		r.start()
		for range 5 {
			r.pass(time.Second)
			for _, p := range r.pods {
				r.poll(p)
			}
		}
		if b := r.entry().Building; b == nil || b.State != catalog.Promoting || b.Reason != r.unmanaged.Error() {
			t.Errorf("the generation is %+v", b)
		}
		r.unmanaged = nil
		r.coordinators = append(r.coordinators, suspended)
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Error("generation 2 is not live")
		}
	})
}

func TestPromotionIsCancelledIfAPodDoesNotPause(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.pods["slow"] = &pod{name: "slow"}
		r.settle(catalog.Promoting)
		r.pass(4 * time.Second)
		if b := r.entry().Building; b == nil || b.State != catalog.Verifying || b.Pause != "" || !strings.Contains(b.Reason, "slow") {
			t.Errorf("the generation is %+v", b)
		}
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Error("the promotion was not retried: generation 2 is not live")
		}
	})
}

func TestFindingsAreRepairedOnceAndThenFailTheBuild(t *testing.T) {
	t.Parallel()
	for name, findings := range map[string][2][2]int64{"repaired": {{3, 0}, {0, 0}}, "still wrong": {{3, 0}, {1, 0}}, "one is not only undelivered": {{5, 4}, {5, 4}}} {
		inSimulation(t, func(r *run) {
			r.settle(catalog.Verifying)
			for _, n := range findings {
				r.pass(time.Second)
				r.work(n[0], n[1])
			}
			for _, p := range r.pods {
				r.poll(p)
			}
			r.pass(time.Second)
			b := r.entry().Building
			if failed := b.State == catalog.Failed; failed != (name != "repaired") || b.Round != 2 {
				t.Errorf("%s: the generation is %s (%s) in round %d", name, b.State, b.Reason, b.Round)
			}
			if b.State == catalog.Failed && (!strings.Contains(b.Reason, fmt.Sprint(findings[1][0]-findings[1][1], " read models differ")) || r.entry().Live.Generation != 1) {
				t.Errorf("%s: %s", name, b.Reason)
			}
		})
	}
}

// Nothing is wrong with a generation whose events the topic does not deliver for a while.
func TestUndeliveredEventsDelayTheBuildAndDoNotFailIt(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.Verifying)
		for range 2 {
			r.pass(time.Second)
			r.work(5, 5)
		}
		r.pass(time.Second)
		if b := r.entry().Building; b.State != catalog.Verifying || b.Round != 3 {
			t.Fatalf("the generation is %s (%s) in round %d", b.State, b.Reason, b.Round)
		}
		r.work(7, 7)
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Errorf("live is %+v", r.entry().Live)
		}
	})
}

func TestFailedJobFailsTheBuild(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.pass(15 * time.Second)
		r.jobs["users.2.build-0"] = job.Job{State: job.Failed, Reason: "cancelled by an operator"}
		r.pass(2 * time.Second)
		if b := r.entry().Building; b.State != catalog.Failed || !strings.Contains(b.Reason, "cancelled by an operator") {
			t.Errorf("the generation is %s: %s", b.State, b.Reason)
		}
		r.decide("c")
		r.settle("")
		if r.entry().Live.Hash != "c" || r.entry().Live.Generation != 3 {
			t.Errorf("live is %+v", r.entry().Live)
		}
	})
}

// allow records what an operator allows.
func (r *run) allow(t *testing.T, allowed catalog.Allowed) {
	t.Helper()
	e := *r.entry()
	building := *e.Building
	building.Allowed = allowed
	e.Building = &building
	if _, err := r.replace(r.entry(), &e); err != nil {
		t.Fatal(err)
	}
}

// A live read model whose events were archived cannot be folded again. When the event store
// has the events again, the new generation is verified again before it is promoted.
func TestReadModelsWithoutEventsPreventThePromotion(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		for range 2 {
			r.project(r.pods["pod-1"])
		}
		r.archive()
		r.settle(catalog.Promoting)
		r.pass(time.Second)
		b := r.entry().Building
		if b.State != catalog.Verifying || b.Archived != 1 || !strings.Contains(b.Reason, "1 read models of collection userReadModels have no events in the event store, such as 1") || !strings.Contains(b.Reason, "--allow-missing 1") {
			t.Fatalf("the generation is %s: %s", b.State, b.Reason)
		}
		r.restore()
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Errorf("not promoted with the events: %+v", r.entry().Building)
		}
	})
}

// An operator allows the loss of read models whose events are back meanwhile: these were in
// no verification, so the generation is verified again.
func TestRestoredReadModelsAreVerifiedWhateverIsAllowed(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		for range 2 {
			r.project(r.pods["pod-1"])
		}
		r.archive()
		r.settle(catalog.Promoting)
		b := r.entry().Building
		if b.Archived != 1 {
			t.Fatalf("the generation is %s: %s", b.State, b.Reason)
		}
		round := b.Round
		r.restore()
		r.allow(t, catalog.Allowed{Archived: 1})
		r.settle("")
		if r.entry().Live.Generation != 2 {
			t.Fatalf("not promoted: %+v", r.entry().Building)
		}
		if _, again := r.jobs[fmt.Sprintf("users.2.verify-%d", round+1)]; !again {
			t.Errorf("the restored read model was not verified after round %d", round)
		}
	})
}

// TestBuildWithoutItsCollectionFails checks that a generation whose collection somebody has dropped
// is not promoted, and that no writes stay paused.
func TestBuildWithoutItsCollectionFails(t *testing.T) {
	t.Parallel()
	for _, state := range []catalog.State{catalog.Building, catalog.Verifying, catalog.Promoting} {
		inSimulation(t, func(r *run) {
			r.settle(state)
			for r.entry().Building.UUID.Data == nil {
				r.pass(time.Second)
			}
			delete(r.collections, "users.generation-2")
			r.pass(25 * time.Second)
			if state == catalog.Promoting {
				r.settle("")
			}
			if b := r.entry().Building; b == nil || b.State != catalog.Failed || !strings.Contains(b.Reason, "is gone: repeat the build with") {
				t.Errorf("%s: the build is %+v", state, b)
			}
		})
	}
}

// TestNameThatMongoDBRefusesFailsTheBuild: otherwise the writes of the projection would stay
// paused.
func TestNameThatMongoDBRefusesFailsTheBuild(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.renaming = mongo.CommandError{Code: 73, Message: "Invalid target namespace"}
		r.settle("")
		if b := r.entry().Building; b == nil || b.State != catalog.Failed || !strings.Contains(b.Reason, "Invalid target namespace") {
			t.Errorf("building is %+v", b)
		}
	})
}

// TestMissingRightToRenameLeavesTheWritesRunning: the promotion does not begin, so the writes are
// not paused and the build can be cancelled.
func TestMissingRightToRenameLeavesTheWritesRunning(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.refused = mongo.CommandError{Code: 13, Message: "not authorized"}
		r.settle("") // It ends without the promotion.
		if b := r.entry().Building; b == nil || b.State != catalog.Verifying || !strings.Contains(b.Reason, "not authorized; grant the user readWrite") {
			t.Errorf("building is %+v", b)
		}
		r.refused = nil
		r.settle("")
		if r.state() != "" {
			t.Errorf("with the right, the generation is %s", r.state())
		}
	})
}

// A suspended pod may write data of an old generation after they were removed.
func TestDataOfAReplacedGenerationAreRemovedTwice(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		for r.state() != "" {
			r.settle("")
		}
		if removed := r.removed["users"]; !slices.Equal(removed, []int64{1, 1}) || len(r.entry().Garbage) > 0 {
			t.Errorf("removed were generations %v; left is %+v", removed, r.entry().Garbage)
		}
	})
}

// A suspended pod may create the collection of an old generation again.
func TestShadowThatWasCreatedAgainIsDroppedWithTheGarbage(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		r.settle(catalog.Promoting)
		for _, name := range []string{"users.generation-1", "users.generation-9", "others.generation-1"} {
			r.create(name)
		}
		r.settle("")
		for name, kept := range map[string]bool{"users.generation-1": false, "users.generation-9": true, "others.generation-1": true, readers: true} {
			if (r.collections[name] != nil) != kept {
				t.Errorf("%s is kept: %t", name, !kept)
			}
		}
	})
}
