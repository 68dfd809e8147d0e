package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// ambush is the kind of fault that strikes at one step of the build of a projection: other faults
// rarely meet the moments in which pods pause, a collection is renamed, or a pod follows late.
const ambush = "strike at a build"

// drawAmbushes draws the ambushes of a plan. None strikes beside a second pipeline, whose
// collections have the same names, or a backup that is restored.
func drawAmbushes(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x616d62757368))
	if r.IntN(3) > 1 || !p.Reconcile || p.Beside != nil || p.has(restoration, stateRestoration) {
		return
	}
	for range 2 + r.IntN(4) {
		// The first builds are over then, and this one can end.
		at := 20*time.Second + time.Duration(r.Int64N(int64(p.Length*2/3-20*time.Second)))
		p.Faults = append(p.Faults, Fault{At: at, For: time.Duration(r.Int64N(int64(90 * time.Second))), Kind: ambush, Process: r.IntN(6), Way: r.IntN(1 << 16)})
	}
}

// trap is what an ambush does at a step of the build of a projection; "" is its end, and before is how
// long before the build it begins.
type trap struct {
	projection, step string
	before           time.Duration
	spring           func()
}

// ambush has a projection built, and springs a trap.
func (w *World) ambush(ctx context.Context, f Fault) {
	r := rand.New(rand.NewPCG(w.plan.Seed, uint64(f.Way)))
	ctx, end := context.WithTimeout(ctx, 2*time.Minute)
	defer end()
	if len(w.projectors) == 1 {
		w.turn(true, w.spares[:1])
		defer w.turn(false, w.spares[:1])
	}
	traps := w.traps(ctx, r, f)
	t := traps[f.Way%len(traps)]
	var springing sync.WaitGroup
	defer springing.Wait()
	springing.Go(func() {
		if t.before > 0 || w.reach(ctx, t.projection, t.step) {
			w.history.add("ambush", "trap %d at the step %q of %s", f.Way%len(traps), t.step, t.projection)
			t.spring()
		}
	})
	wait(ctx, t.before)
	if (t.projection == "ledger" || t.projection == "groups") && r.IntN(2) == 0 {
		w.mu.Lock()
		next := 1 + w.definition%definitions
		w.mu.Unlock()
		w.rollout(ctx, next, 2*time.Second)
	}
	w.leavesUnbuilt()
	_ = w.command(ctx, virtual.Projector, "projections", "rebuild", w.named(t.projection), "--allow-parked", fmt.Sprint(w.plan.Poison*w.plan.Writers), "--yes", "--why", "simulation")
}

// reach waits until the build of a projection is at a step, or over if the step is "".
func (w *World) reach(ctx context.Context, projection, step string) bool {
	for begun := false; ctx.Err() == nil; wait(ctx, 20*time.Millisecond) {
		now := text(withID(w.state("projections"), w.named(projection)), "building", "state")
		if begun = begun || now != ""; begun && now == step {
			return true
		}
	}
	return false
}

// projector returns a projector that runs, and that drives the builds or does not.
func (w *World) projector(coordinates bool) *process {
	coordinator := w.history.coordinator.Load()
	for _, p := range slices.Concat(w.projectors, w.spares) {
		if name := p.name(); name != "" && (name == coordinator) == coordinates {
			return p
		}
	}
	return w.projectors[0]
}

// stallRename lets MongoDB execute the next rename of a collection late, and waits until the request
// has arrived.
func (w *World) stallRename(ctx context.Context, block time.Duration) {
	w.stores.FailCommands(mongoemu.CommandFault{Commands: []string{"renameCollection"}, AppName: "penstock-projector", Block: block})
	for before := w.stores.PendingFaults(); ctx.Err() == nil && w.stores.PendingFaults() >= before; {
		wait(ctx, 20*time.Millisecond)
	}
}

// traps returns the traps for an ambush.
func (w *World) traps(ctx context.Context, r *rand.Rand, f Fault) []trap {
	pod := w.projectors[f.Process%len(w.projectors)]
	anyStep := pick(r, "building", "catching up", "verifying", "promoting", "")
	anyOf := pick(r, "tally", "ledger", "groups", "steps")
	// late holds requests of projectors back: MongoDB executes them later.
	late := func(times int, collection string, commands ...string) {
		w.stores.FailCommands(mongoemu.CommandFault{Commands: commands, AppName: "penstock-projector", Collection: collection, Times: times, Block: 5*time.Second + f.For/4})
	}
	return []trap{
		// A pod loses MongoDB and its registration, and is back just before a promotion.
		{pick(r, "tally", "ledger"), "", 32 * time.Second, func() {
			p := w.projector(false).host()
			p.Hold(mongodb, virtual.ToServer, virtual.ToClient)
			p.Hold(stores, virtual.ToServer, virtual.ToClient)
			w.stallRename(ctx, 6*time.Second)
			wait(ctx, time.Second)
			p.Heal(mongodb)
			p.Heal(stores)
		}},
		// Renewals are executed after later ones: their connections have broken meanwhile.
		{anyOf, anyStep, 0, func() {
			late(6, "projectors", "update")
			for range 8 {
				wait(ctx, 1500*time.Millisecond)
				pod.host().Drop(mongodb, true)
				pod.host().Drop(stores, true)
			}
		}},
		// A rename is executed after another coordinator has taken over, while the former one does
		// not pause.
		{anyOf, "promoting", 0, func() {
			w.stallRename(ctx, 22*time.Second)
			w.freeze(ctx, w.projector(true), 21*time.Second)
		}},
		// The topic loses messages between the verification and the promotion.
		{"ledger", "verifying", 0, func() {
			w.stallRename(ctx, 70*time.Second)
			_ = w.bus.LoseMessages(w.topic(), w.losing(everyNth(3)))
			wait(ctx, 65*time.Second)
			_ = w.bus.LoseMessages(w.topic(), nil)
		}},
		// A pod crashes, and its writes of the generation that is replaced are executed late.
		{"ledger", "verifying", 0, func() {
			w.stallRename(ctx, 5*time.Second)
			entry := withID(w.state("projections"), w.named("ledger"))
			late(1, text(entry, "live", "collection"), "update")
			late(1, text(entry, "building", "shadow"), "update")
			wait(ctx, 3*time.Second)
			w.restart(ctx, w.projector(false), Fault{Way: 1}, true)
		}},
		{anyOf, anyStep, 0, func() {
			_ = w.command(ctx, virtual.Projector, "verify", "--repair", "--grace", "5s", "--yes", "--why", "simulation")
		}},
		{anyOf, "", 0, func() {
			from := time.Now().UTC().Add(-time.Minute)
			_ = w.command(ctx, virtual.Publisher, "republish", "--from", from.Format(time.RFC3339), "--to", time.Now().UTC().Format(time.RFC3339), "--yes", "--why", "simulation")
		}},
		// Pods see the build late, and everything takes its time, most of all what the job writes:
		// meanwhile events come for the aggregates that it has read.
		{"tally", "building", 0, func() {
			late(1+f.Process%2, "projections", "find")
			late(2, text(withID(w.state("projections"), w.named("tally")), "building", "shadow"), "insert", "update")
			w.stores.SetLatency(f.For / 300)
			wait(ctx, 30*time.Second)
			w.stores.SetLatency(0)
		}},
		// Registrations expire at once, and a pod does not see the promotion.
		{pick(r, "groups", "steps"), "promoting", 0, func() {
			w.stores.ahead.Add(int64(time.Minute))
			w.leapt.Store(time.Now())
			w.freeze(ctx, w.projector(false), 16*time.Second)
		}},
		{anyOf, "promoting", 0, func() {
			w.stores.FailCommands(mongoemu.CommandFault{Commands: []string{"renameCollection"}, Times: 2, CloseConnection: true, AfterExecution: true})
			w.restart(ctx, pod, Fault{For: f.For / 8, Way: f.Way}, true)
		}},
	}
}
