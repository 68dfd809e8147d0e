package simulation

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

// erasure is the kind of fault in which a person asks to be erased: an aggregate's events are
// masked or deleted, and operators run the command erase.
const erasure = "erase an aggregate"

// erased is an aggregate that a person wants to have erased.
type erased struct {
	// deleted says that its events are deleted; otherwise the command masks them.
	deleted bool
	// runs counts the commands that have ended with success since the faults are over.
	runs int
}

// drawErasures draws the erasures of a plan.
func drawErasures(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x6572617365))
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(3) {
		p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(p.Length))), For: time.Duration(r.Int64N(int64(20 * time.Second))), Kind: erasure, Process: r.IntN(6), Way: r.IntN(1 << 16)})
	}
}

// personOf is the personal data in the events of an aggregate.
func (w *World) personOf(id string) string { return "person-" + w.prefix + id + "." }

// erase erases an aggregate that a fault draws. Two operators can do that at once, and each can be
// killed.
func (w *World) erase(ctx context.Context, f Fault) {
	p := w.plan
	writer := string(rune('a' + f.Process%p.Writers))
	id, e := fmt.Sprint(writer, f.Way/16%p.Aggregates), erased{deleted: f.Way%2 == 0}
	if p.Unreadable > 0 && f.Way%5 == 0 {
		id, e.deleted = "broken-"+writer+"1", true
	} else if copied := w.copied(); len(copied) > 0 && f.Way%2 == 0 {
		id = copied[f.Way/16%len(copied)]
	}
	w.mu.Lock()
	if _, again := w.erasures[id]; !again {
		w.erasures[id] = e
	}
	w.mu.Unlock()
	// So the records of commands have the id, and messages of the aggregate come late.
	_ = w.command(ctx, virtual.Publisher, "republish", "--aggregate", id, "--yes", "--why", "simulation")
	var operators sync.WaitGroup
	for n := range 1 + f.Way/4%2 {
		operators.Go(func() {
			killed, end := context.WithTimeout(ctx, f.For*time.Duration(n+1))
			defer end()
			_ = w.runErase(killed, id)
			if f.Way/8%2 == 0 {
				_ = w.runErase(ctx, id)
			}
		})
	}
	operators.Wait()
}

// copied returns the aggregates that findings and dead letters name.
func (w *World) copied() (ids []string) {
	for _, d := range w.stores.Documents(stateDatabase, "findings") {
		if id := text(d, "aggregateId"); id != "" {
			ids = append(ids, id)
		}
	}
	letters, _ := w.bus.Messages(w.subscription()+"/$DeadLetterQueue", 0, math.MaxInt)
	for _, m := range letters {
		if id, _, ok := splitMessageID(m.MessageID); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// runErase deletes the events, if they are to be deleted, and runs the command.
func (w *World) runErase(ctx context.Context, id string) error {
	command := []string{"erase", "--aggregate", id, "--value", w.personOf(id), "--yes", "--why", "simulation"}
	if !w.isDeleted(id) {
		command = append(command, "--mask", "payload.name")
	} else if err := w.deleteEvents(ctx, id); err != nil {
		return err
	}
	return w.command(ctx, virtual.Projector, command...)
}

// deleteEvents deletes the events of an aggregate, as the application does.
func (w *World) deleteEvents(ctx context.Context, id string) error {
	w.writing.RLock()
	defer w.writing.RUnlock()
	_, err := w.events().DeleteMany(ctx, bson.D{{Key: "aggregateId", Value: id}})
	return err
}

// isErased reports whether the erasure of an aggregate has begun, and isDeleted whether its events
// are deleted besides: then no writer writes it any more.
func (w *World) isErased(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.erasures[id]
	return ok
}

func (w *World) isDeleted(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.erasures[id].deleted
}

// eraseAgain repeats the erasures that have left a trace, as docs/erasure.md says: processes that
// still held events in memory may have written them, or somebody may have restored a backup.
func (w *World) eraseAgain(ctx context.Context) {
	w.retryBuilds(ctx)
	for id, e := range maps.Clone(w.erasures) {
		if e.runs > 0 && len(w.traces(id)) == 0 {
			continue
		}
		if w.plan.Moves {
			// The command finds what is in a collection that a projection has left behind.
			for _, projection := range []string{"ledger", "groups"} {
				_ = w.command(ctx, virtual.Projector, "projections", "drop", w.named(projection), "--yes", "--why", "simulation")
			}
		}
		w.dropUnknownBuilds(ctx)
		// The command also finds the aggregate of another pipeline that has the same id.
		// It fails if it has found nothing, as after the events of an aggregate were deleted before
		// they were published.
		if err := w.runErase(ctx, id); err == nil || len(w.pipelines) > 1 || strings.Contains(err.Error(), "no place that the command searches had this id") {
			e.runs++
			w.mu.Lock()
			w.erasures[id] = e
			w.mu.Unlock()
		}
	}
}

// retryBuilds repeats the builds that have failed because an aggregate was erased while they were
// verified, and lets those go on that wait because an erased aggregate has read models of before the
// loss of the state, or in a collection that was left behind, as docs/erasure.md says.
func (w *World) retryBuilds(ctx context.Context) {
	if len(w.erasures) == 0 && w.plan.Archives == 0 {
		return
	}
	deleted := slices.ContainsFunc(slices.Collect(maps.Values(w.erasures)), func(e erased) bool { return e.deleted })
	w.retryFailed(ctx, "differ from the fold")
	for _, entry := range w.state("projections") {
		if missing := number(entry, "building", "archived"); deleted && missing > 0 && (w.plan.Moves || number(entry, "live", "generation") == 0) {
			_ = w.command(ctx, virtual.Projector, "projections", "rebuild", text(entry, "_id"), "--allow-missing", fmt.Sprint(missing), "--yes", "--why", "simulation")
		}
	}
}

// retryFailed repeats the builds whose reason has one of the texts.
func (w *World) retryFailed(ctx context.Context, texts ...string) {
	for _, entry := range w.state("projections") {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(text(entry, "building", "reason"), s) }) {
			_ = w.command(ctx, virtual.Projector, "projections", "rebuild", text(entry, "_id"), "--yes", "--why", "simulation")
		}
	}
}

// dropUnknownBuilds removes by hand what the command names as left and no other command removes: a
// collection of a generation that the catalog does not have, parts of one that began after the backup
// of a restored state, or the collection that a projection had before the state was lost. A write that
// MongoDB executed late can also have created a collection again, or a backup of the read models has
// brought it back.
func (w *World) dropUnknownBuilds(ctx context.Context) {
	models := w.stores.client.Database(modelsDatabase)
	names, _ := models.ListCollectionNames(ctx, bson.D{})
	for _, name := range names {
		built, _, _ := strings.Cut(name, ".promotion-") // so that a promotion keeps its collection
		known := func(entry bson.Raw) bool {
			garbage, _ := entry.Lookup("garbage").ArrayOK()
			values, _ := garbage.Values()
			return text(entry, "building", "shadow") == built || slices.ContainsFunc(values, func(v bson.RawValue) bool {
				d, _ := v.DocumentOK()
				return text(d, "shadow") == built && d.Lookup("removed").Type != bson.TypeDateTime
			})
		}
		if strings.Contains(name, ".generation-") && !slices.ContainsFunc(w.stores.Documents(stateDatabase, "projections"), known) {
			_ = models.Collection(name).Drop(ctx)
		}
	}
	if !w.plan.has(stateRestoration) {
		return
	}
	for _, projection := range []string{"ledger", "groups"} {
		entry := withID(w.state("projections"), w.named(projection))
		live, next := text(entry, "live", "collection"), text(entry, "building", "collection")
		for _, name := range []string{w.named(projection), w.named("moved-" + projection)} {
			if live != "" && name != live && name != next {
				_ = models.Collection(name).Drop(ctx)
			}
		}
	}
	for _, entry := range w.stores.Documents(stateDatabase, "projections") {
		later := bson.D{{Key: "$gt", Value: number(entry, "generations")}}
		_, _ = models.Collection("watermarks").DeleteMany(ctx, bson.D{{Key: "_id.projection", Value: text(entry, "_id")}, {Key: "_id.generation", Value: later}})
	}
}

// checkErased finds what the erasures have left.
func checkErased(_ context.Context, o *outcome) (findings []string, err error) {
	for _, id := range slices.Sorted(maps.Keys(o.world.erasures)) {
		if o.world.erasures[id].runs == 0 {
			findings = append(findings, "no command has erased "+id+" since the faults are over")
		}
		findings = append(findings, o.world.traces(id)...)
	}
	return findings, nil
}

// traces finds what the state, the read models, the event store and the dead letters have of an
// erased aggregate: its person, and its id if its events are deleted.
func (w *World) traces(id string) (found []string) {
	person := []byte(w.personOf(id))
	// Two pipelines have aggregates with the same ids.
	deleted := w.erasures[id].deleted && len(w.pipelines) == 1
	for _, in := range []struct {
		server               *mongodbServer
		database, collection string
	}{{w.mongo, eventsDatabase, w.named("events")}, {w.stores, modelsDatabase, ""}, {w.stores, stateDatabase, ""}} {
		names := []string{in.collection}
		if in.collection == "" {
			names, _ = in.server.client.Database(in.database).ListCollectionNames(context.Background(), bson.D{})
		}
		for _, name := range names {
			for _, d := range in.server.Documents(in.database, name) {
				watermark := name == "watermarks" && d.Lookup("part").Type == 0
				if bytes.Contains(d, person) || deleted && !watermark && mentions(d, id) {
					found = append(found, fmt.Sprintf("%s is erased, and %s.%s has %s", id, in.database, name, d))
				}
			}
		}
	}
	letters, err := w.bus.Messages(w.subscription()+"/$DeadLetterQueue", 0, math.MaxInt)
	if err != nil {
		return append(found, err.Error())
	}
	for _, m := range letters {
		if aggregate, _, _ := splitMessageID(m.MessageID); aggregate == id {
			found = append(found, fmt.Sprintf("%s is erased, and its message %s is a dead letter", id, m.MessageID))
		}
	}
	return found
}

// mentions reports whether a document has an id as a text or a name of a field, or in quotes.
func mentions(d bson.Raw, id string) bool {
	elements, _ := d.Elements()
	return slices.ContainsFunc(elements, func(e bson.RawElement) bool {
		v := e.Value()
		if e.Key() == id {
			return true
		}
		if nested, ok := v.DocumentOK(); ok {
			return mentions(nested, id)
		}
		if list, ok := v.ArrayOK(); ok {
			return mentions(bson.Raw(list), id)
		}
		text, _ := v.StringValueOK()
		return text == id || strings.Contains(text, fmt.Sprintf("%q", id))
	})
}
