package simulation

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/penstock-cdc/penstock/integration/virtual"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// replaceEvents replaces the collection of the event store by a copy with the same documents,
// as a restore or a move to another server does. Writers wait meanwhile. Either no publisher runs, and
// the publishers then begin anew, as docs/operations.md says. Or they run and have a backlog: when they
// have reported that they have published it, they continue with what is inserted from then on.
func (w *World) replaceEvents(ctx context.Context, running bool) {
	ctx = context.WithoutCancel(ctx)
	if running {
		w.bus.Throttle(time.Minute)
		wait(ctx, 10*time.Second)
	} else {
		w.turn(false, w.publishers)
		defer w.turn(true, w.publishers)
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	w.history.drained.Store(false)
	until(ctx, func() error { return w.copyEvents(ctx) })
	w.replaced.Store(true)
	for end := time.Now().Add(3 * time.Minute); running && time.Now().Before(end); wait(ctx, time.Second) {
		if !w.history.drained.Load() {
			continue
		}
		var err error
		w.skipping(true, func() {
			err = w.command(ctx, virtual.Publisher, "checkpoint", "set", "now", "--yes", "--why", "has published the former events")
		})
		if err == nil {
			return
		}
	}
	w.beginAnew(ctx)
}

// beginAnew sets the checkpoint to the beginning of the collection that has the name of the
// event store now. There may be no checkpoint yet.
func (w *World) beginAnew(ctx context.Context) {
	for withID(w.state("checkpoints"), w.named("events")) != nil {
		if w.command(ctx, virtual.Publisher, "checkpoint", "set", "beginning", "--yes", "--why", "replaces the events") == nil {
			return
		}
		wait(ctx, time.Second)
	}
}

// copyEvents makes one attempt. After an error, the collection still has its name, or the copy
// has it.
func (w *World) copyEvents(ctx context.Context) error {
	spare := w.events().Database().Collection(w.named("restored"))
	if err := spare.Drop(ctx); err != nil {
		return err
	}
	if _, err := spare.Indexes().CreateOne(ctx, workload.Index()); err != nil {
		return err
	}
	all, err := w.events().Find(ctx, bson.D{})
	if err != nil {
		return err
	}
	var documents []bson.Raw
	if err := all.All(ctx, &documents); err != nil {
		return err
	}
	if len(documents) > 0 {
		if _, err := spare.InsertMany(ctx, documents); err != nil {
			return err
		}
	}
	rename := bson.D{
		{Key: "renameCollection", Value: eventsDatabase + "." + spare.Name()},
		{Key: "to", Value: eventsDatabase + "." + w.events().Name()}, {Key: "dropTarget", Value: true},
	}
	return w.mongo.client.Database("admin").RunCommand(ctx, rename).Err()
}

// copied is a copy of a collection.
type copied struct {
	collection *mongo.Collection
	indexes    []bson.Raw
	documents  []bson.Raw
}

// backUp copies a database as it is at one point in time.
func (w *World) backUp(ctx context.Context, database string) (all []copied) {
	until(ctx, func() (err error) {
		all, err = w.copyDatabase(ctx, w.stores.client.Database(database))
		return err
	})
	return all
}

func (w *World) copyDatabase(ctx context.Context, db *mongo.Database) (all []copied, err error) {
	names, err := db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		c := copied{collection: db.Collection(name)}
		indexes, err := c.collection.Indexes().List(ctx)
		if err == nil {
			err = indexes.All(ctx, &c.indexes)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	session, err := db.Client().StartSession()
	if err != nil {
		return nil, err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		for i := range all {
			found, err := all[i].collection.Find(ctx, bson.D{})
			if err == nil {
				err = found.All(ctx, &all[i].documents)
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, options.Transaction().SetReadConcern(readconcern.Snapshot()))
	return all, err
}

// restoreModels restores the read models to an earlier time, as docs/operations.md says: while
// the projectors run. What they write meanwhile stays.
func (w *World) restoreModels(ctx context.Context, age time.Duration) {
	faults, ctx := ctx, context.WithoutCancel(ctx)
	all, before := w.backUp(ctx, modelsDatabase), w.generations()
	wait(faults, age)
	w.restored.Store(true)
	for _, c := range all {
		w.history.add("world", "restores %d documents of %s", len(c.documents), c.collection.Name())
		until(ctx, func() error { return c.collection.Drop(ctx) })
		until(ctx, func() error {
			return c.collection.Database().RunCommand(ctx, bson.D{{Key: "createIndexes", Value: c.collection.Name()}, {Key: "indexes", Value: c.indexes}}).Err()
		})
		if len(c.documents) > 0 {
			until(ctx, func() error {
				_, err := c.collection.InsertMany(ctx, c.documents, options.InsertMany().SetOrdered(false))
				return err
			})
		}
	}
	rebuilt := others(before, w.generations())
	for _, entry := range w.state("projections") {
		name := text(entry, "_id")
		building := func() bool { return text(withID(w.state("projections"), name), "building", "state") != "" }
		if building() && !slices.Contains(rebuilt, name) {
			rebuilt = append(rebuilt, name)
		}
		for tries := 0; tries < 60 && building() && w.command(ctx, virtual.Projector, "projections", "cancel", name, "--yes", "--why", "restored") != nil; tries++ {
			wait(ctx, time.Second)
		}
	}
	w.rebuild(ctx, rebuilt)
	for _, view := range []string{"groups", "steps"} {
		for tries := 0; tries < 20 && w.command(ctx, virtual.Projector, "verify", "--repair", "--projection", w.named(view), "--yes", "--why", "restored") != nil; tries++ {
			wait(ctx, time.Second)
		}
	}
}

// restoreState restores the state database to an earlier time while nothing runs, as
// docs/operations.md says; or it is lost.
func (w *World) restoreState(ctx context.Context, age time.Duration, lost bool) {
	faults, ctx := ctx, context.WithoutCancel(ctx)
	all, before := w.backUp(ctx, stateDatabase), w.generations()
	wait(faults, age)
	w.operating.Lock()
	w.halted.Store(true)
	var running []*process
	for _, p := range slices.Concat(w.processes(), w.spares) {
		if w.stop(p) {
			running = append(running, p)
		}
	}
	rebuilt := others(before, w.generations())
	if lost {
		all, rebuilt = nil, nil // The projectors build all projections anew.
	}
	w.restored.Store(w.restored.Load() || lost || len(rebuilt) > 0)
	for _, c := range w.backUp(ctx, stateDatabase) {
		until(ctx, func() error {
			_, err := c.collection.DeleteMany(ctx, bson.D{})
			return err
		})
	}
	for _, c := range all {
		w.history.add("world", "restores %d documents of %s", len(c.documents), c.collection.Name())
		for _, document := range c.documents {
			until(ctx, func() error {
				_, err := c.collection.InsertOne(ctx, document)
				return err
			})
		}
	}
	w.setBack.Add(1)
	w.halted.Store(false)
	w.operating.Unlock()
	if w.replaced.Load() {
		w.beginAnew(ctx) // the restored checkpoint can belong to the former collection
	}
	for _, p := range running {
		w.start(p)
	}
	w.rebuild(ctx, rebuilt)
}

// until repeats a request to MongoDB until it succeeds. A duplicate key counts as success: the
// document is there already.
func until(ctx context.Context, do func() error) {
	for err := do(); err != nil && !mongo.IsDuplicateKeyError(err); err = do() {
		wait(ctx, 500*time.Millisecond)
	}
}

// others returns the projections whose live generation has another number.
func others(before, after map[string]int64) (others []string) {
	for projection, generation := range after {
		if before[projection] != generation {
			others = append(others, projection)
		}
	}
	slices.Sort(others)
	return others
}

// rebuild rebuilds projections. Until then, readers can see read models of several definitions.
func (w *World) rebuild(ctx context.Context, projections []string) {
	for _, projection := range projections {
		w.leavesUnbuilt()
		_ = w.command(ctx, virtual.Projector, "projections", "rebuild", projection, "--yes", "--why", "restored")
	}
}

// generations returns the live generation of each projection.
func (w *World) generations() map[string]int64 {
	live := make(map[string]int64)
	for _, entry := range w.state("projections") {
		live[text(entry, "_id")] = number(entry, "live", "generation")
	}
	return live
}
