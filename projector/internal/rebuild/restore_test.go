package rebuild_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/generation"
)

// bringBack restores the catalog and the jobs to an earlier time, while no pod runs.
func (r *run) bringBack(entries map[string]*generation.Entry) {
	for _, c := range r.coordinators {
		c.kill()
		c.pod.dead, c.pod.until = true, time.Now()
	}
	r.coordinators, r.entries = nil, map[string]*generation.Entry{}
	for name, e := range entries {
		restored := *e
		restored.Coordinator.Until = time.Now()
		r.entries[name] = &restored
	}
	clear(r.jobs)
	<-time.After(time.Minute)
	r.start()
	for range 2 {
		for _, p := range r.pods {
			if !p.dead {
				r.poll(p)
			}
		}
	}
}

// TestGenerationThatIsLiveAlreadyIsBuiltAnew restores the catalog to a time before a promotion.
// What the build would verify is the collection of the readers, into which the generation of the
// catalog has written since.
func TestGenerationThatIsLiveAlreadyIsBuiltAnew(t *testing.T) {
	t.Parallel()
	for _, state := range []generation.State{generation.Building, generation.CatchingUp, generation.Verifying} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			inSimulation(t, func(r *run) {
				for r.settle(state); !r.entry().Building.Prepared(); {
					r.pass(time.Second)
				}
				before := maps.Clone(r.entries)
				r.settle("")
				r.numbers[r.name] = 2
				live := r.collections[readers].uuid
				r.bringBack(before)
				r.settle("")
				if e := r.entry(); e.Live.Generation != 3 || bytes.Equal(live.Data, r.collections[readers].uuid.Data) {
					t.Errorf("generation %d is live: %+v", e.Live.Generation, e.History)
				}
			})
		})
	}
}

// TestBuildFailsIfItsCollectionIsGoneTwice: otherwise no operator would see that something removes
// the collections.
func TestBuildFailsIfItsCollectionIsGoneTwice(t *testing.T) {
	t.Parallel()
	inSimulation(t, func(r *run) {
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
			r.pass(time.Second)
			for _, p := range r.pods {
				r.poll(p)
			}
			for name := range r.collections {
				if strings.Contains(name, ".generation-") {
					delete(r.collections, name)
				}
			}
		}
		if b := r.entry().Building; b.State != generation.Failed || b.Generation != 3 || !strings.Contains(b.Reason, "like that of the build before") {
			t.Errorf("building is %+v", b)
		}
	})
}
