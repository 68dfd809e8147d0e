package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// hiding and singleErasure are kinds of faults that strike alone, when all others are over and nothing
// is left to do: what happens then has no other reason.
const hiding, singleErasure = "hide a read model", "erase by one command"

// drawCalm draws a fault that strikes alone. Before an erasure, duplicate detection must have
// forgotten what is published again, and no collection may have been left behind.
func drawCalm(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x616c6f6e65))
	f := Fault{Kind: pick(r, hiding, singleErasure), Way: r.IntN(1 << 16)}
	if r.IntN(2) == 0 && p.Reconcile && p.Beside == nil && !p.has(restoration, stateRestoration) && (f.Kind == hiding || p.Duplicates < time.Minute && !p.Moves) {
		p.Faults = append(p.Faults, f)
	}
}

// two draws two aggregates with a read model of a projection; the first has an event after its second
// one. ok says that there are two.
func (w *World) two(projection string, f Fault) (first, second string, ok bool) {
	models := slices.DeleteFunc(w.models(projection), func(d bson.Raw) bool {
		return w.isErased(text(d, "_id")) || number(d, "lastEventId") < w.plan.first()+2
	})
	if len(models) < 2 {
		return "", "", false
	}
	return text(models[f.Way%len(models)], "_id"), text(models[(f.Way+1)%len(models)], "_id"), true
}

// within waits until done reports true, and returns that.
func within(ctx context.Context, most time.Duration, done func() bool) bool {
	for end := time.Now().Add(most); !done() && time.Now().Before(end); {
		wait(ctx, 100*time.Millisecond)
	}
	return done()
}

// hide lets the shard with a read model not answer, and removes another read model by hand. A sweep
// must bring that one back nevertheless.
func (w *World) hide(ctx context.Context, f Fault) {
	hidden, removed, ok := w.two("ledger", f)
	if !ok {
		return
	}
	collection := w.stores.client.Database(modelsDatabase).Collection(w.live("ledger"))
	w.stores.FailDocuments(mongoemu.DocumentFault{Collection: collection.Name(), IDs: []string{hidden}, Code: 6, Reads: true})
	w.mu.Lock()
	w.removed = removed
	w.mu.Unlock()
	_, _ = collection.DeleteOne(ctx, bson.D{{Key: "_id", Value: removed}})
	// A sweep is due by the clock of MongoDB, which may have been set back by minutes.
	if !within(ctx, 15*time.Minute, func() bool { return w.model("ledger", removed) != nil }) {
		w.unmet = append(w.unmet, "no sweep has brought back the read model of "+removed+" while that of "+hidden+" cannot be read")
	}
	// The sweep parks the hidden one, perhaps later, until its shard answers.
	parked := func() bool {
		return slices.ContainsFunc(w.state("parked"), func(d bson.Raw) bool { return text(d, "reason") == "unavailable" })
	}
	within(ctx, time.Minute, parked)
	w.stores.ClearFaults()
	within(ctx, time.Minute, func() bool { return !parked() })
}

// isRemoved reports whether somebody has removed the read model of an aggregate by hand.
func (w *World) isRemoved(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed == id
}

// eraseOnce erases an aggregate by one command while no projector runs. The aggregate has a dead letter, a
// read model of a generation that is being built, and messages that come after the command. The build
// waits because all events of another aggregate are archived: a promotion would delete its read model.
func (w *World) eraseOnce(ctx context.Context, f Fault) {
	id, archived, ok := w.two("tally", f)
	if !ok {
		return
	}
	events := slices.DeleteFunc(w.mongo.Documents(eventsDatabase, w.named("events")), func(d bson.Raw) bool { return text(d, "aggregateId") != archived })
	_ = w.deleteEvents(ctx, archived)
	_ = w.command(ctx, virtual.Projector, "projections", "rebuild", w.named("tally"), "--yes", "--why", "simulation")
	entry := func() bson.Raw { return withID(w.state("projections"), w.named("tally")) }
	// A build waits for pods that have ended until their registrations expire, by the clock of MongoDB, which may
	// have been set back by almost five minutes.
	if !within(ctx, 9*time.Minute, func() bool { return number(entry(), "building", "archived") > 0 }) || w.model("tally", archived) == nil {
		w.unmet = append(w.unmet, "a promotion does not wait although the events of "+archived+" are archived")
	}
	w.turn(false, w.projectors)
	last := fmt.Sprintf("%s/%d", id, number(w.model("tally", id), "lastEventId"))
	_ = w.bus.ExpireMessages(w.topic(), w.losing(func(message string) bool { return message == last }))
	_ = w.command(ctx, virtual.Publisher, "republish", "--aggregate", id, "--yes", "--why", "simulation")
	_ = w.bus.ExpireMessages(w.topic(), nil)
	w.mu.Lock()
	w.erasures[id] = erased{deleted: true, runs: 1}
	w.mu.Unlock()
	w.dropUnknownBuilds(ctx)
	_ = w.runErase(ctx, id)
	w.turn(true, w.projectors)
	// The ranges of a job that runs can have the id, and a late message of an event that was too large
	// for the topic parks the aggregate for a minute, and longer if MongoDB's clock is behind the pod's.
	wait(ctx, 20*time.Second)
	within(ctx, 7*time.Minute, func() bool { return len(w.traces(id)) == 0 })
	w.unmet = append(w.unmet, w.traces(id)...)
	_, _ = w.events().InsertMany(ctx, events)
}
