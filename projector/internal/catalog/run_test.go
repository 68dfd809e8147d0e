package catalog_test

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

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
		_ = catalog.NewCoordinator(catalog.CoordinatorOptions{Pod: p.name, Lease: a, Catalog: a, Alive: a.Alive, Jobs: a, Collections: a, Data: a, Logger: zerolog.Nop()}).Run(ctx)
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
	if r.lease.holder == c.actor {
		r.lease.until = time.Now()
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
		_, _ = r.replace(nil, catalog.Create("", declared(r.name, hash), by))
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
		r.work(0, 0)
		if len(e.Garbage) > 0 && e.Building == nil {
			<-time.After(2 * time.Second) // The lease must not end between two rounds.
			continue
		}
		<-time.After(500 * time.Millisecond)
	}
}
