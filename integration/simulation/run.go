package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

// Result is what a history has shown.
type Result struct {
	Plan *Plan
	// Breaches describe the promises that were broken; empty if all were kept.
	Breaches []string
	History  *History
	// Events, Answers and Virtual count the events, the answers to readers of /applied, and
	// the virtual time.
	Events, Answers int
	Virtual         time.Duration
	// Settled is how long the pipeline needed after the last fault.
	Settled time.Duration
}

// Run runs the history of a plan. Call it in a bubble of testing/synctest. history records
// what happens, also if Run does not return. folder is for files.
func Run(ctx context.Context, p *Plan, history *History, folder string) (*Result, error) {
	history.began = time.Now()
	w, err := newWorld(ctx, p, history, folder)
	if err != nil {
		return nil, fmt.Errorf("start the world: %w", err)
	}
	watched := &observer{world: w}
	var writers []*writer
	for i := range p.Writers {
		writers = append(writers, newWriter(w, i))
	}
	asks := &reader{world: w, writers: writers, random: rand.New(rand.NewPCG(p.Seed, 0x726561646572))}
	settles := &settlements{world: w}
	var beside sync.WaitGroup
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	for _, process := range w.processes() {
		w.start(process)
	}
	beside.Go(func() { watched.run(observing) })
	beside.Go(func() { asks.run(observing) })
	beside.Go(func() { settles.run(observing) })

	striking, stopFaults := context.WithCancel(ctx)
	defer stopFaults()
	var faults sync.WaitGroup
	for _, f := range p.Faults {
		faults.Go(func() {
			wait(striking, f.At)
			if striking.Err() == nil {
				w.history.add("fault", "%s", f.String())
				faultKinds[f.Kind].run(striking, w, f)
			}
		})
	}
	var writing sync.WaitGroup
	for _, writes := range writers {
		writing.Go(func() { writes.run(ctx) })
	}
	writing.Wait()
	stopFaults()
	faults.Wait()

	result := &Result{Plan: p, History: history}
	o := &outcome{world: w, watched: watched, asks: asks, settles: settles, version: kept(w.definition)}
	for _, writes := range writers {
		o.written = append(o.written, writes.written...)
		o.unreadable = append(o.unreadable, writes.unreadable...)
	}
	result.Events = len(o.written)
	w.settle(ctx)
	if err := o.load(ctx); err != nil {
		return nil, err
	}
	calm := time.Now()
	for time.Since(calm) < Settle {
		settled, err := o.settled(ctx)
		if err != nil {
			return nil, err
		}
		if settled {
			break
		}
		wait(ctx, 2*time.Second)
	}
	result.Settled = time.Since(calm)
	w.history.add("world", "settled after %v", result.Settled)
	for _, promise := range promises {
		findings, err := promise.check(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", promise.name, err)
		}
		if len(findings) > 0 {
			result.Breaches = append(result.Breaches, promise.name+":\n    "+strings.Join(findings[:min(len(findings), 8)], "\n    "))
		}
	}
	stopObserving()
	beside.Wait()
	result.Answers = asks.answered
	if len(w.misused) > 0 {
		return nil, fmt.Errorf("operators have used commands or flags that do not exist: %s", strings.Join(w.misused, "; "))
	}
	w.closing.Store(true)
	for _, process := range w.processes() {
		w.stop(process)
	}
	w.ending.Wait()
	result.Virtual = time.Since(history.began)
	return result, w.close(ctx)
}

// settle ends every fault: all links are healed, all processes run with the last definition,
// and nothing is paused.
func (w *World) settle(ctx context.Context) {
	w.history.add("world", "all faults are over")
	w.mongo.ClearFaults()
	w.bus.ClearFaults()
	for _, process := range w.processes() {
		for _, server := range virtual.Servers {
			process.host().Heal(server)
		}
	}
	for _, process := range w.publishers {
		w.start(process)
	}
	unbuilt := w.unbuilt
	w.rollout(ctx, kept(w.definition), 0)
	// A discard ends with its reason.
	_ = w.command(ctx, virtual.Projector, "parked", "retry", "--discarded", "--wait", "0s", "--yes", "--why", "settle")
	for _, program := range []virtual.Kind{virtual.Publisher, virtual.Projector} {
		_ = w.command(ctx, program, "resume", "--yes", "--why", "settle")
	}
	if unbuilt {
		// A generation whose build was cancelled is built only on demand, and one with parked
		// aggregates is promoted only on demand. Otherwise no rebuild may mend what live events
		// have left wrong.
		_ = w.command(ctx, virtual.Projector, "projections", "rebuild", "ledger", "--allow-parked", fmt.Sprint(w.plan.Poison*w.plan.Writers), "--yes", "--why", "settle")
	}
}
