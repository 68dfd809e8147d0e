package simulation

import (
	"context"
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
	if r.IntN(3) > 0 || !p.Reconcile || p.Beside != nil || slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return slices.Contains([]string{restoration, stateRestoration}, f.Kind)
	}) {
		return
	}
	for range 2 + r.IntN(4) {
		p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(p.Length))), For: time.Duration(r.Int64N(int64(90 * time.Second))), Kind: ambush, Process: r.IntN(6), Way: r.IntN(1 << 16)})
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
	traps := w.traps(ctx, r, f)
	t := traps[f.Way%len(traps)]
	ctx, end := context.WithTimeout(ctx, 2*time.Minute)
	defer end()
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
		w.rollout(ctx, 1+r.IntN(definitions), 2*time.Second)
		return
	}
	w.leavesUnbuilt()
	_ = w.command(ctx, virtual.Projector, "projections", "rebuild", w.named(t.projection), "--yes", "--why", "simulation")
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

// traps returns the traps for an ambush.
func (w *World) traps(ctx context.Context, r *rand.Rand, f Fault) []trap {
	pod := w.projectors[f.Process%len(w.projectors)]
	anyStep := pick(r, "building", "catching up", "verifying", "promoting", "")
	anyOf := pick(r, "tally", "ledger", "groups", "steps")
	// late holds requests of projectors back: MongoDB executes them later.
	late := func(times int, collection string, commands ...string) {
		w.stores.FailCommands(mongoemu.CommandFault{Commands: commands, AppName: "penstock-projector", Collection: collection, Times: times, Block: 5*time.Second + f.For/4})
	}
	// refuse refuses the writes of the coordinator's lease, or of a registration.
	refuse := func(lease bool) {
		ids := []string{}
		for _, d := range w.state("projectors") {
			if isPod := d.Lookup("beat").Type != 0; isPod != lease {
				ids = append(ids, text(d, "_id"))
			}
		}
		if len(ids) > 0 {
			w.stores.FailDocuments(mongoemu.DocumentFault{Collection: "projectors", IDs: []string{pick(r, ids...)}, Code: 91})
		}
	}
	return []trap{
		// A pod loses its registration, goes on, and sees the build late.
		{"tally", "", 32 * time.Second, func() {
			refuse(false)
			wait(ctx, 32*time.Second)
			late(1, "projections", "find")
			wait(ctx, 20*time.Second)
			w.stores.ClearFaults()
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
		// A rename is executed after another coordinator has taken over, while a pod does not pause.
		{anyOf, "promoting", 0, func() {
			late(1, "", "renameCollection")
			refuse(true)
			w.freeze(ctx, pod, 15*time.Second)
			w.stores.ClearFaults()
			w.freeze(ctx, pod, 10*time.Second)
		}},
		// The topic loses messages while a promotion waits for a pod.
		{"ledger", "promoting", 0, func() {
			_ = w.bus.LoseMessages(w.topic(), w.losing(everyNth(3)))
			w.freeze(ctx, pod, 45*time.Second)
			_ = w.bus.LoseMessages(w.topic(), nil)
		}},
		// A pod crashes, and its writes of the generation that is replaced are executed late.
		{anyOf, anyStep, 0, func() {
			late(3, text(withID(w.state("projections"), w.named(anyOf)), "live", "collection"), "update", "insert", "delete")
			wait(ctx, time.Second)
			w.restart(ctx, pod, Fault{For: f.For / 8}, true)
		}},
		{anyOf, anyStep, 0, func() {
			_ = w.command(ctx, virtual.Projector, "verify", "--repair", "--grace", "5s", "--yes", "--why", "simulation")
		}},
		{anyOf, "", 0, func() {
			from := time.Now().UTC().Add(-time.Minute)
			_ = w.command(ctx, virtual.Publisher, "republish", "--from", from.Format(time.RFC3339), "--to", time.Now().UTC().Format(time.RFC3339), "--yes", "--why", "simulation")
		}},
		// Pods see the build late, and everything takes its time.
		{"tally", "building", 0, func() {
			late(1+f.Process%2, "projections", "find")
			w.stores.SetLatency(f.For / 300)
			wait(ctx, 30*time.Second)
			w.stores.SetLatency(0)
		}},
		// Registrations expire at once, and writes are executed late.
		{pick(r, "groups", "steps"), "promoting", 0, func() {
			late(3, "", "commitTransaction")
			w.stores.ahead.Add(int64(time.Minute))
		}},
		{anyOf, "promoting", 0, func() {
			w.stores.FailCommands(mongoemu.CommandFault{Commands: []string{"renameCollection"}, Times: 2, CloseConnection: true, AfterExecution: true})
			w.restart(ctx, pod, Fault{For: f.For / 8, Way: f.Way}, true)
		}},
	}
}
