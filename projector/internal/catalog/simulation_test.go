package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// events are the events that a collection contains.
type events map[int]bool

// collection is a collection in the read models' database.
type collection struct {
	uuid bson.Binary
	// projection and generation are those of its documents.
	projection string
	generation int64
	events     events
}

// simulation is a model of everything around the coordinators: a projection and those
// that it was renamed from, their catalog entries, collections, pods and jobs. Events are
// numbers: a pod that settles one has written it into the collections of all targets that
// it serves.
type simulation struct {
	// name is the present name of the projection.
	name        string
	entries     map[string]*catalog.Entry
	collections map[string]*collection
	uuids       byte
	pods        map[string]*pod
	jobs        map[string]job.Job
	// removed are the generations whose data were removed, by projection.
	removed map[string][]int64
	// settled are the events that pods have settled, stored those in the event store. Each
	// event is that of another aggregate. archived are the events that the event store does
	// not have any more, and restored those that were archived and that it has again.
	settled, stored, archived, restored events
	// unmanaged is what Inspect finds, and inspection how long that takes. inspections counts them.
	unmanaged   error
	inspection  time.Duration
	inspections int
	last        int
	// parked is the number of parked aggregates, and counting how long it takes to count them.
	// counted is how often that was done.
	parked   int64
	counting time.Duration
	counted  int
	// refusal is the error of creating a collection, refused that of every rename, and renaming
	// that of the rename to the readers' name, if set.
	refusal, refused, renaming error
	// broken is the first violation of an invariant.
	broken error
	lease  heldLease
	// reader is the UUID of the collection that readers saw last.
	reader bson.Binary
}

// heldLease is the lease of the coordinator.
type heldLease struct {
	holder *actor
	epoch  int64
	until  time.Time
}

// pod is one projector, with its view of the catalog and its registration.
type pod struct {
	name       string
	registered catalog.Registration
	until      time.Time
	targets    []catalog.Target
	paused     map[string]string
	known      bool
	// writing is the event that the pod is writing, 0 for none. stale is set if the event is
	// not settled afterwards, for example because the guard of a write matched nothing.
	writing int
	stale   bool
	// dead is set after the pod was killed.
	dead bool
}

const readers = "userReadModels"

func newSimulation() *simulation {
	return &simulation{
		name:    "users",
		entries: map[string]*catalog.Entry{}, collections: map[string]*collection{}, pods: map[string]*pod{},
		jobs: map[string]job.Job{}, removed: map[string][]int64{}, settled: events{}, stored: events{}, archived: events{}, restored: events{},
	}
}

func declared(name, hash string) catalog.Declared {
	return catalog.Declared{Name: name, Definition: catalog.Definition{Hash: hash, Collection: readers}}
}

func (w *simulation) fail(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

func (w *simulation) create(name string) *collection {
	w.uuids++
	w.collections[name] = &collection{uuid: bson.Binary{Subtype: 4, Data: []byte{w.uuids}}, events: events{}}
	return w.collections[name]
}

func (w *simulation) entry() *catalog.Entry { return w.entries[w.name] }

// replace is the compare-and-swap of the catalog.
func (w *simulation) replace(old, changed *catalog.Entry) (*catalog.Entry, error) {
	stored := w.entries[changed.Name]
	if old == nil && stored != nil || old != nil && (stored == nil || stored.Revision != old.Revision) {
		return nil, catalog.ErrConflict
	}
	next := *changed
	next.Revision = 1
	if stored != nil {
		next.Revision = stored.Revision + 1
	}
	w.entries[changed.Name] = &next
	return &next, nil
}

// see checks what a reader sees: there is always a collection, and it is the live one or
// the one that is being promoted.
func (w *simulation) see() {
	if len(w.entries) == 0 {
		return
	}
	c := w.collections[readers]
	if c == nil {
		w.fail("readers see no collection")
		return
	}
	if !slices.Equal(c.uuid.Data, w.reader.Data) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(w.entries)), func(e *catalog.Entry) bool {
			b := e.Building
			return b != nil && b.State == catalog.Promoting && slices.Equal(b.UUID.Data, c.uuid.Data)
		}) {
			w.fail("readers see a collection that is not being promoted")
		}
		w.reader = c.uuid
	}
	for n := range w.settled {
		if !c.events[n] {
			w.fail("readers miss event %d, which was settled", n)
			return
		}
	}
}

// poll is one round of a pod: it renews its registration and follows the catalog.
func (w *simulation) poll(p *pod) {
	if p.until.Before(time.Now()) {
		// The registration had expired: others may have gone on without this pod.
		// An event that it is writing is not settled: the pod is not trusted until it has
		// read the catalog, which waits for the event.
		p.paused, p.known, p.stale = nil, false, true
		if p.writing == 0 {
			p.targets = nil
		}
	}
	p.until = time.Now().Add(catalog.Lease)
	if p.known && p.writing == 0 {
		p.paused = map[string]string{}
		for name, e := range w.entries {
			if e.Building != nil && e.Building.State == catalog.Promoting {
				p.paused[name] = e.Building.Pause
			}
		}
		p.targets = catalog.Targets(w.entries)
	}
	p.known = true
	p.registered = catalog.Registration{Pod: p.name}
	for _, t := range p.targets {
		if !p.known {
			break
		}
		p.registered.Serves = append(p.registered.Serves, catalog.Serving{Projection: t.Projection, Generation: t.Generation, Defers: t.Defers})
	}
	for _, name := range slices.Sorted(maps.Keys(p.paused)) {
		p.registered.Paused = append(p.registered.Paused, catalog.Pausing{Projection: name, Token: p.paused[name]})
	}
}

// project lets a pod write an event into its first target or, if one is already in the
// first, into the others. Then the pod settles the event if it is trusted.
func (w *simulation) project(p *pod) {
	if p.writing == 0 {
		if len(p.paused) > 0 || len(p.targets) == 0 {
			return
		}
		w.last++
		w.stored[w.last] = true
		p.writing = w.last
		p.stale = !w.put(p.targets[0], p.writing)
		return
	}
	live := !p.targets[0].Building
	for _, t := range p.targets[1:] {
		written := w.put(t, p.writing)
		live, p.stale = live || !t.Building, p.stale || !t.Building && !written
	}
	if time.Now().Before(p.until.Add(-5*time.Second)) && !p.stale && live {
		w.settled[p.writing] = true
	}
	p.writing = 0
}

// put writes an event into a target, and reports whether the guard matched: it does not
// match documents of another generation. A document of another projection must count as
// one of an older generation.
func (w *simulation) put(t catalog.Target, event int) bool {
	c := w.collections[t.Collection]
	if c == nil {
		c = w.create(t.Collection) // MongoDB creates a missing collection too.
		c.projection, c.generation = t.Projection, t.Generation
	}
	if c.projection != t.Projection && t.Generation >= c.generation {
		w.fail("generation %d of %s writes into generation %d of %s", t.Generation, t.Projection, c.generation, c.projection)
	}
	if c.generation != t.Generation {
		return false
	}
	c.events[event] = true
	return true
}

// deleted stands for a job that ended and was deleted as an old one.
var deleted = job.Job{State: job.Done}

// work lets one job do all of its work. Some of its findings can lack only the latest events.
func (w *simulation) work(findings, undelivered int64) {
	for _, id := range slices.Sorted(maps.Keys(w.jobs)) {
		j := w.jobs[id]
		if j.State.Ended() {
			continue
		}
		e := w.entries[j.Projection]
		if e.Building == nil || e.Building.Generation != j.Generation {
			continue // No pod serves the target.
		}
		c := w.collections[e.Building.Shadow]
		if c == nil {
			continue
		}
		for n := range w.restored {
			if j.Kind == job.Verify && !c.events[n] {
				findings++
			}
		}
		maps.Copy(c.events, w.stored)
		j.State, j.Counts = job.Done, map[string]int64{string(history.Different): findings, history.CountUndelivered: undelivered, string(history.Parked): w.parked}
		w.jobs[id] = j
		return
	}
}

// actor is one coordinator's access to the simulation. Each operation waits for the schedule
// before it is executed and again before it is answered. A killed actor gets no answer.
type actor struct {
	*simulation
	ask    chan struct{}
	answer chan struct{}
	killed chan struct{}
}

var errKilled = errors.New("killed")

func (a *actor) gate() error {
	select {
	case a.ask <- struct{}{}:
	case <-a.killed:
		return errKilled
	}
	select {
	case <-a.answer:
		return nil
	case <-a.killed:
		return errKilled
	}
}

func do[T any](a *actor, operation func() (T, error)) (T, error) {
	var none T
	if err := a.gate(); err != nil {
		return none, err
	}
	result, err := operation()
	if stopped := a.gate(); stopped != nil {
		return none, stopped
	}
	return result, err
}

func (a *actor) List(context.Context) (map[string]*catalog.Entry, error) {
	return do(a, func() (map[string]*catalog.Entry, error) { return maps.Clone(a.entries), nil })
}

func (a *actor) Take(_ context.Context, lasts time.Duration) (int64, error) {
	return do(a, func() (int64, error) {
		if a.lease.until.After(time.Now()) {
			return 0, catalog.ErrNotCoordinator
		}
		a.lease = heldLease{a, a.lease.epoch + 1, time.Now().Add(lasts)}
		return a.lease.epoch, nil
	})
}

func (a *actor) Renew(_ context.Context, epoch int64, lasts time.Duration) error {
	_, err := do(a, func() (bool, error) {
		if a.lease.epoch != epoch {
			return false, catalog.ErrNotCoordinator
		}
		a.lease.until = time.Now().Add(lasts)
		return true, nil
	})
	return err
}

func (a *actor) Release(ctx context.Context, epoch int64) error { return a.Renew(ctx, epoch, -1) }

func (a *actor) Write(_ context.Context, old, changed *catalog.Entry) (*catalog.Entry, error) {
	return do(a, func() (*catalog.Entry, error) { return a.replace(old, changed) })
}

func (a *actor) Alive(context.Context) ([]catalog.Registration, error) {
	return do(a, func() ([]catalog.Registration, error) {
		var alive []catalog.Registration
		for _, name := range slices.Sorted(maps.Keys(a.pods)) {
			if p := a.pods[name]; p.until.After(time.Now()) {
				alive = append(alive, p.registered)
			}
		}
		return alive, nil
	})
}

func (a *actor) Create(_ context.Context, j job.Job) (job.Job, error) {
	return do(a, func() (job.Job, error) {
		if _, ok := a.jobs[j.ID]; !ok {
			j.State = job.Planning
			a.jobs[j.ID] = j
		}
		return a.jobs[j.ID], nil
	})
}

func (a *actor) Get(_ context.Context, id string) (job.Job, error) {
	return do(a, func() (job.Job, error) {
		j, ok := a.jobs[id]
		if !ok {
			a.fail("the entry names job %s, which was never created", id)
		}
		if j.ID == "" && j.State == deleted.State {
			return j, job.ErrNotFound
		}
		return j, nil
	})
}

func (a *actor) Cancel(_ context.Context, id, reason string) (job.Job, error) {
	return do(a, func() (job.Job, error) {
		j, ok := a.jobs[id]
		if ok && j.State != job.Done {
			j.State, j.Reason = job.Cancelled, reason
			a.jobs[id] = j
		}
		return j, nil
	})
}

func (a *actor) Prepare(_ context.Context, shadow, _ string) (bson.Binary, error) {
	return do(a, func() (bson.Binary, error) {
		if a.refusal != nil {
			return bson.Binary{}, a.refusal
		}
		c := a.collections[shadow]
		if c == nil {
			c = a.create(shadow)
			projection, number, _ := strings.Cut(shadow, ".generation-")
			c.projection = projection
			c.generation, _ = strconv.ParseInt(number, 10, 64)
		}
		return c.uuid, nil
	})
}

func (a *actor) Names(context.Context) (map[string]string, error) {
	return do(a, func() (map[string]string, error) {
		names := map[string]string{}
		for name, c := range a.collections {
			names[string(c.uuid.Data)] = name
		}
		return names, nil
	})
}

func (a *actor) Rename(_ context.Context, from, to string, drop bool) error {
	_, err := do(a, func() (bool, error) {
		c := a.collections[from]
		if a.refused != nil {
			return false, a.refused
		}
		if to == readers && a.renaming != nil {
			return false, a.renaming
		}
		if c == nil || a.collections[to] != nil && !drop {
			return true, nil
		}
		delete(a.collections, from)
		a.collections[to] = c
		a.see()
		return true, nil
	})
	return err
}

func (a *actor) Where(_ context.Context, uuid bson.Binary) (string, error) {
	return do(a, func() (string, error) {
		for name, c := range a.collections {
			if slices.Equal(c.uuid.Data, uuid.Data) {
				return name, nil
			}
		}
		return "", nil
	})
}

func (a *actor) Drop(_ context.Context, name string) error {
	_, err := do(a, func() (bool, error) {
		if name == readers {
			a.fail("the readers' collection was dropped")
		}
		delete(a.collections, name)
		return true, nil
	})
	return err
}

func (a *actor) Remove(_ context.Context, projection string, number int64) (bool, error) {
	return do(a, func() (bool, error) {
		if e := a.entries[projection]; e.Live != nil && e.Live.Generation == number || e.Building != nil && e.Building.Generation == number {
			a.fail("data of generation %d are removed, which is in use", number)
		}
		a.removed[projection] = append(a.removed[projection], number)
		return true, nil
	})
}

func (a *actor) Parked(context.Context, string, int64) (int64, string, error) {
	<-time.After(a.counting)
	parked, err := do(a, func() (int64, error) {
		a.counted++
		return a.parked, nil
	})
	return parked, "ada (expression)", err
}

func (a *actor) Inspect(context.Context, string, bool) (found catalog.Inspected, err error) {
	<-time.After(a.inspection)
	if err := a.gate(); err != nil {
		return found, err
	}
	return do(a, func() (catalog.Inspected, error) {
		a.inspections++
		for n := range a.collections[readers].events {
			if a.archived[n] {
				found.Archived++
				found.Example = strconv.Itoa(n)
			}
		}
		found.Unmanaged = a.unmanaged
		return found, nil
	})
}
