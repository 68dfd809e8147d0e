package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/simulation/record"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// Result is what a history has shown.
type Result struct {
	Plan *Plan
	// Breaches describe the promises that were broken; empty if all were kept.
	Breaches []string
	History  *History
	// Tally counts what the history contained.
	record.Tally
	// States has a hash of each state in which a fault met a pipeline.
	States []uint64
}

// Promises returns the promises that each history is held against.
func Promises() []string {
	names := make([]string, len(promises))
	for i, p := range promises {
		names[i] = p.name
	}
	return names
}

// Run runs the history of a plan. Call it in a bubble of testing/synctest. history records
// what happens, also if Run does not return. folder is for files.
func Run(ctx context.Context, p *Plan, history *History, folder string) (*Result, error) {
	history.began = time.Now()
	servers, err := newServers(p, folder)
	if err != nil {
		return nil, fmt.Errorf("start the servers: %w", err)
	}
	var outcomes []*outcome
	for i, plan := range p.pipelines() {
		w, err := newWorld(ctx, servers, plan, history.of(i), prefixes[i])
		if err != nil {
			return nil, fmt.Errorf("start the world: %w", err)
		}
		outcomes = append(outcomes, newOutcome(w))
	}
	// each does something for all pipelines at once.
	each := func(do func(*outcome)) {
		var all sync.WaitGroup
		for _, o := range outcomes {
			all.Go(func() { do(o) })
		}
		all.Wait()
	}
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	var beside sync.WaitGroup
	for _, o := range outcomes {
		beside.Go(func() { o.observe(observing) })
	}
	striking, stopFaults := context.WithCancel(ctx)
	defer stopFaults()
	var faults sync.WaitGroup
	for _, o := range outcomes {
		faults.Go(func() { o.world.strike(striking, false) })
	}
	each(func(o *outcome) { o.write(ctx) })
	stopFaults()
	faults.Wait()

	servers.mongo.ClearFaults()
	servers.stores.ClearFaults()
	servers.bus.ClearFaults()
	each(func(o *outcome) { o.world.settle(ctx) })
	result := &Result{Plan: p, History: history}
	calm := time.Now()
	failures := make(chan error, len(outcomes))
	each(func(o *outcome) { failures <- o.await(ctx, calm.Add(Settle)) })
	for range outcomes {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	result.Slowest = time.Since(calm)
	history.add("world", "settled after %v", result.Slowest)
	if o := outcomes[0]; o.idle && p.has(hiding, singleErasure) {
		o.world.strike(ctx, true)
		if err := o.await(ctx, time.Now().Add(Settle)); err != nil {
			return nil, err
		}
	}
	for _, o := range outcomes {
		breaches, err := o.breaches(ctx)
		if err != nil {
			return nil, err
		}
		result.Breaches = append(result.Breaches, breaches...)
	}
	stopObserving()
	beside.Wait()
	result.Histories, result.Faults = 1, make(map[string]int)
	for _, o := range outcomes {
		result.Events += len(o.written)
		result.Answers += o.asks.answered
		result.States = slices.AppendSeq(result.States, maps.Keys(o.world.met))
		for kind, n := range o.world.struck {
			result.Faults[kind] += n
		}
	}
	result.Requests = servers.requests()
	each(func(o *outcome) { failures <- o.world.end() })
	for range outcomes {
		err = errors.Join(err, <-failures)
	}
	result.Virtual = time.Since(history.began)
	return result, errors.Join(err, servers.close(ctx))
}

func newOutcome(w *World) *outcome {
	o := &outcome{world: w, watched: newObserver(w), settles: &settlements{world: w, settled: make(map[string]int64)}}
	for i := range w.plan.Writers {
		o.writers = append(o.writers, newWriter(w, i))
	}
	o.asks = &reader{world: w, writers: o.writers, random: rand.New(rand.NewPCG(w.plan.Seed, 0x726561646572))}
	return o
}

// observe starts the processes, and observes until ctx ends.
func (o *outcome) observe(ctx context.Context) {
	for _, process := range o.world.processes() {
		o.world.start(process)
	}
	var all sync.WaitGroup
	for _, run := range []func(context.Context){o.watched.run, o.watched.watchCatalog, o.asks.run, o.settles.run} {
		all.Go(func() { run(ctx) })
	}
	all.Wait()
}

// strike lets the faults of the plan strike that are calm, or the others. ctx ends them.
func (w *World) strike(ctx context.Context, calm bool) {
	var faults sync.WaitGroup
	for _, f := range w.plan.Faults {
		if faultKinds[f.Kind].calm != calm {
			continue
		}
		faults.Go(func() {
			wait(ctx, f.At)
			if ctx.Err() == nil {
				if !faultKinds[f.Kind].events {
					f = w.plan.of(f)
				}
				w.history.add(w.named("fault"), "%s", f.String())
				defer w.meet(f)()
				faultKinds[f.Kind].run(ctx, w, f)
			}
		})
	}
	faults.Wait()
}

// write lets all writers write.
func (o *outcome) write(ctx context.Context) {
	var writing sync.WaitGroup
	for _, w := range o.writers {
		writing.Go(func() { w.run(ctx) })
	}
	writing.Wait()
	for _, w := range o.writers {
		o.written = append(o.written, w.written...)
		o.unreadable = append(o.unreadable, w.unreadable...)
	}
}

// await waits until the pipeline has nothing left to do.
func (o *outcome) await(ctx context.Context, until time.Time) error {
	o.version, o.idle = kept(o.world.definition), false
	if err := o.load(); err != nil {
		return err
	}
	for try := 0; time.Now().Before(until); try++ {
		settled, err := o.settled(ctx)
		if settled || err != nil {
			o.idle = settled
			return err
		}
		if try%10 == 4 {
			o.world.eraseAgain(ctx)
			if err := o.load(); err != nil {
				return err
			}
		}
		if try%10 == 6 {
			o.world.mend(ctx)
		}
		if len(o.world.corrected)+len(o.world.refused) > 0 && try%10 == 9 {
			// The message of a corrected event still has the old content. If it comes late, the
			// aggregate is parked again. What the topic has refused is in the quarantine.
			o.world.bringBack(ctx)
		}
		wait(ctx, 2*time.Second)
	}
	return nil
}

// breaches checks all promises.
func (o *outcome) breaches(ctx context.Context) ([]string, error) {
	var breaches []string
	for _, promise := range promises {
		findings, err := promise.check(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", promise.name, err)
		}
		if len(findings) > 0 {
			name := promise.name
			if o.world.prefix != "" {
				name += ", in the second pipeline"
			}
			breaches = append(breaches, name+":\n    "+strings.Join(findings[:min(len(findings), 8)], "\n    "))
		}
	}
	return breaches, nil
}

// end ends the processes.
func (w *World) end() error {
	w.closing.Store(true)
	for _, process := range w.processes() {
		w.stop(process)
	}
	w.ending.Wait()
	if len(w.misused) > 0 {
		return fmt.Errorf("operators have used commands or flags that do not exist: %s", strings.Join(w.misused, "; "))
	}
	return nil
}

// settle ends every fault: all links are healed, and all processes run with the last
// definition.
func (w *World) settle(ctx context.Context) {
	w.history.add("world", "all faults are over")
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
	if w.setBack.Load() > 0 || w.restored.Load() {
		// After a restore, a build fails whose collection is gone, or is what readers see already.
		wait(ctx, 20*time.Second)
		w.retryFailed(ctx, "is gone", "what readers see already")
	}
	if w.plan.Archives > 0 {
		// A build fails if events are archived between the two readings of its verification.
		w.retryFailed(ctx, "differ from the fold")
	}
	if unbuilt {
		// An aggregate whose event has been corrected may have resumed in the live generation
		// alone. Readers would see it go back if it stayed parked in the new one.
		if len(w.corrected) > 0 {
			_ = w.command(ctx, virtual.Projector, "parked", "retry", "--wait", "1m", "--yes", "--why", "corrected")
		}
		// A generation whose build was cancelled is built only on demand, and one with parked
		// aggregates is promoted only on demand. Otherwise no rebuild may mend what live events
		// have left wrong.
		for _, projection := range []string{"ledger", "groups"} {
			if w.isLive(projection, kept(w.definition)) {
				continue
			}
			rebuild := []string{"projections", "rebuild", w.named(projection), "--allow-parked", fmt.Sprint(w.plan.Poison * w.plan.Writers), "--yes", "--why", "settle"}
			for range 5 {
				if w.command(ctx, virtual.Projector, rebuild...) == nil {
					break
				}
				wait(ctx, 2*time.Second) // no pod declares a retired projection yet
			}
		}
	}
}

// isLive reports whether a version of the ledger or of groups is live, and no other one is being built.
// After a restore, documents can also be of another generation than the live one: then the rebuild
// that docs/operations.md asks for was refused, or another operator has cancelled it.
func (w *World) isLive(projection string, version int) bool {
	entry := withID(w.state("projections"), w.named(projection))
	models := w.models(projection)
	another := func(d bson.Raw) bool { return number(d, "lastGeneration") != number(entry, "live", "generation") }
	if w.restored.Load() && slices.ContainsFunc(models, another) {
		return false
	}
	return number(entry, "live", "generation") > 0 && text(entry, "building", "hash") == "" && len(models) > 0 &&
		slices.Contains([]int64{number(models[0], "version"), number(models[0], "versions", "0")}, int64(version))
}
