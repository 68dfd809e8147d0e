package catalog_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// run is one run of the model.
type run struct {
	*simulation
	coordinators []*coordinator
	started      int
}

// coordinator is a coordinator that runs step by step.
type coordinator struct {
	*actor
	pod    *pod
	cancel context.CancelFunc
	ended  chan struct{}
}

// start starts a coordinator with a pod of its own.
func (r *run) start() {
	r.started++
	p := &pod{name: fmt.Sprintf("pod-%d", r.started)}
	r.pods[p.name] = p
	r.poll(p)
	a := &actor{simulation: r.simulation, ask: make(chan struct{}), answer: make(chan struct{}), killed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	c := &coordinator{actor: a, pod: p, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = catalog.NewCoordinator(catalog.CoordinatorOptions{Pod: p.name, Office: a, Catalog: a, Pods: a, Jobs: a, Collections: a, Data: a, Logger: zerolog.Nop()}).Run(ctx)
	}()
	r.coordinators = append(r.coordinators, c)
}

// kill ends a coordinator at any point, as SIGKILL does. Its current operation may or may
// not have been executed, and its pod sends nothing more.
func (c *coordinator) kill() {
	c.cancel()
	close(c.killed)
	<-c.ended
}

// abandon ends the lease of a coordinator, as a process does whose predecessor it was. Only the
// epoch protects from one that lives. The registration of its pod is ended if it is dead.
func (r *run) abandon(c *coordinator) {
	if r.office.holder == c.actor {
		r.office.until = time.Now()
	}
	if c.pod.dead {
		c.pod.until = time.Now()
	}
}

// step lets a coordinator execute one operation, or receive the answer of one, if it has
// one pending.
func (c *coordinator) step() bool {
	synctest.Wait()
	select {
	case <-c.ask:
		c.answer <- struct{}{}
		synctest.Wait()
		return true
	default:
		return false
	}
}

// decide declares a definition, as the follower of a pod does.
func (r *run) decide(hash string) {
	e := r.entry()
	by := catalog.Author{Who: "test", At: time.Now()}
	if e == nil {
		c := r.create(readers)
		c.projection, c.generation, r.reader = r.name, catalog.First, c.uuid
		_, _ = r.replace(nil, catalog.Create("", declared(r.name, hash), catalog.Found{}, by))
		return
	}
	if e.Wanted() == hash {
		return
	}
	r.build(r.name, hash)
}

// build begins to build a definition of a projection.
func (r *run) build(name, hash string) {
	// The numbers are 2, 3 and so on if no time has passed since 1970.
	if next, err := catalog.Start(r.entries[name], "", declared(name, hash), 0, catalog.Author{Who: "test", At: time.UnixMilli(0)}); err == nil {
		next.Building.StartedAt = time.Now()
		for i := range next.Garbage {
			if next.Garbage[i].Since.Equal(time.UnixMilli(0)) {
				next.Garbage[i].Since = time.Now()
			}
		}
		_, _ = r.replace(r.entries[name], next)
	}
}

// apply lets an application write documents of its own into the readers' collection, or
// move them away.
func (r *run) apply(unmanaged bool) {
	c := r.collections[readers]
	c.unmanaged, c.early = unmanaged, unmanaged && (c.early || r.early())
}

// index changes the indexes of the readers' collection.
func (r *run) index() {
	r.changes++
	c := r.collections[readers]
	c.layout = r.changes
	if r.early() {
		c.owed = c.layout
	}
}

// archive moves the first settled event out of the event store. restore puts all back.
func (r *run) archive() {
	for n := 1; n <= r.last; n++ {
		if r.settled[n] && r.stored[n] {
			delete(r.stored, n)
			r.archived[n] = true
			return
		}
	}
}

func (r *run) restore() {
	for n := range r.archived {
		delete(r.archived, n)
		r.stored[n], r.restored[n] = true, true
	}
}

// early reports whether no verification has begun, so that the next promotion must see what
// happens to the readers' collection now.
func (r *run) early() bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(r.entries)), func(e *catalog.Entry) bool {
		return e.Building != nil && (e.Building.State == catalog.Verifying || e.Building.State == catalog.Promoting)
	})
}

// settle runs everything without faults until no work is left, or the building generation
// has reached a state.
func (r *run) settle(until catalog.State) {
	r.parked = 0
	for range 4000 {
		e := r.entry()
		if e.Building == nil && len(e.Garbage) == 0 || e.Building != nil && (e.Building.State == catalog.Failed || e.Building.State == until) {
			return
		}
		if e.Building != nil && e.Building.Archived > 0 && len(r.archived) > 0 {
			return // It waits for the events, for ever.
		}
		for _, c := range r.coordinators {
			for range 10 {
				if !c.step() {
					break
				}
			}
			r.see()
		}
		if until != "" && r.entry().Building != nil && r.entry().Building.State == until {
			return
		}
		for _, p := range r.pods {
			if !p.dead {
				for r.project(p); p.writing != 0; {
					r.project(p)
				}
				r.poll(p)
			}
		}
		r.work(0)
		if len(e.Garbage) > 0 && e.Building == nil {
			<-time.After(2 * time.Second) // The lease must not end between two rounds.
			continue
		}
		<-time.After(500 * time.Millisecond)
	}
}

// Coordinators are killed and suspended between any two operations, pods are suspended
// and continue, others end the leases of dead and of living coordinators, the definition changes
// again, verification has findings, and aggregates
// are parked. An application writes into its collection, and its indexes change. Readers
// always see a complete collection without a gap among the settled events, and no document of
// the application and no index is dropped. At the end the projection has a live generation and no garbage.
func TestRebuildSurvivesAnyCrashOrSuspension(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// Draw the schedule outside the synctest bubble: rapid ends a check by a panic,
		// which must not cross the bubble.
		schedule := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 100, 500).Draw(rt, "schedule")
		draw := func(n int) int {
			if len(schedule) == 0 {
				return 0
			}
			v := schedule[0]
			schedule = schedule[1:]
			return v % n
		}
		var broken error
		var log []string
		synctest.Test(t, func(*testing.T) {
			r := &run{simulation: newSimulation()}
			r.decide("a")
			r.start()
			for range 2 {
				for _, p := range r.pods {
					r.poll(p)
				}
			}
			hashes := 1
			asleep := map[*coordinator]bool{}
			for range 2 {
				r.project(r.pods["pod-1"])
			}
			if draw(3) == 0 {
				r.archive()
			}
			r.decide("h1")
			r.apply(draw(4) == 0)
			r.index()
			r.settle([]catalog.State{catalog.Building, catalog.CatchingUp, catalog.Verifying, catalog.Promoting}[draw(4)])
			for len(schedule) > 0 {
				switch draw(24) {
				case 0:
					if hashes < 4 {
						hashes++
						r.decide(fmt.Sprint("h", hashes))
						log = append(log, "declare another")
					}
				case 1:
					if len(r.coordinators) < 4 {
						r.start()
						log = append(log, "start")
					}
				case 2:
					if len(r.coordinators) > 1 {
						i := draw(len(r.coordinators))
						r.coordinators[i].kill()
						r.coordinators[i].pod.dead = true
						log = append(log, "kill")
						if draw(2) == 0 {
							r.abandon(r.coordinators[i])
							log = append(log, "succeed the killed one")
						}
						r.coordinators = append(r.coordinators[:i], r.coordinators[i+1:]...)
					}
				case 23:
					if len(r.coordinators) > 0 {
						r.abandon(r.coordinators[draw(len(r.coordinators))])
						log = append(log, "succeed a living one")
					}
				case 3:
					if len(r.coordinators) > 0 {
						c := r.coordinators[draw(len(r.coordinators))]
						asleep[c] = !asleep[c]
						log = append(log, "stop or continue")
					}
				case 4:
					<-time.After([]time.Duration{time.Second, 5 * time.Second, 11 * time.Second, 31 * time.Second}[draw(4)])
					log = append(log, "time passes")
				case 5:
					r.work(int64(draw(5) / 4))
				case 6:
					r.parked = int64(draw(2))
				case 7, 8:
					if p := r.pods[fmt.Sprintf("pod-%d", 1+draw(r.started))]; !p.dead {
						r.poll(p)
					}
				case 9, 10, 11:
					if p := r.pods[fmt.Sprintf("pod-%d", 1+draw(r.started))]; !p.dead {
						r.project(p)
					}
				case 14:
					switch draw(6) {
					case 4:
						r.archive()
						log = append(log, "archive")
					case 5:
						r.restore()
						log = append(log, "restore")
					case 0, 1, 2:
						r.apply(draw(2) == 0)
						log = append(log, "application writes")
					default:
						r.index()
						log = append(log, "index")
					}
				default:
					moved := false
					for _, c := range r.coordinators {
						if !asleep[c] {
							for range 1 + draw(6) {
								moved = c.step() || moved
							}
						}
					}
					if !moved {
						<-time.After(500 * time.Millisecond)
					}
				}
				r.see()
				if r.broken != nil {
					break
				}
			}
			// Suspended coordinators continue in the middle of an operation.
			if len(r.coordinators) == 0 {
				r.start()
			}
			r.apply(false)
			r.restore()
			r.settle("")
			e := r.entry()
			for _, c := range r.coordinators {
				c.kill()
			}
			if r.broken == nil {
				r.broken = r.check(e)
			}
			broken = r.broken
		})
		if broken != nil {
			rt.Fatalf("%v\nafter %v", broken, log)
		}
	})
}

// check returns an error if the final state is wrong.
func (r *run) check(e *catalog.Entry) error {
	switch b := e.Building; {
	case e.Live == nil:
		return fmt.Errorf("there is no live generation: %+v", e)
	case b != nil && b.State != catalog.Failed:
		return fmt.Errorf("generation %d is still %s: %s", b.Generation, b.State, b.Reason)
	case b == nil && len(e.Garbage) > 0:
		return fmt.Errorf("garbage is left: %+v", e.Garbage)
	case b == nil:
		for number := range r.begun[e.Name] {
			if number != e.Live.Generation && !r.removed[e.Name][number] {
				return fmt.Errorf("data of generation %d were not removed", number)
			}
		}
	}
	return nil
}
