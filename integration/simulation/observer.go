package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// observer reads what the pipeline stores, like an application and like an operator, while
// it happens.
type observer struct {
	world *World

	mu sync.Mutex
	// saved are the positions of the checkpoint, each with the time of its reading.
	saved []position
	// began says that the stream has a first position.
	began bool
	// epoch is that of the last position.
	epoch int64
	// back describes positions of the checkpoint that went back.
	back []string
	// overwritten describes changes of the catalog and of registrations that were lost.
	overwritten []string
	// generations are the definitions of each projection by their numbers, and live is the
	// number that readers saw last.
	generations map[generation]string
	live        map[string]int64
	// reused describes generations that went back, or got another definition.
	reused []string
	// findings describe what a reader must never see.
	findings []string
	// seen has the last event of each read model of the last read, and groups counts the
	// accounts in the documents of the view.
	seen   map[string]int64
	groups int
	// setBack is the world's count at the last read.
	setBack int64
	// generation is that of the ledger at the last read, and builds says that another one was then
	// being built.
	generation int64
	builds     bool
	// regressions are the read models that went back.
	regressions []regression
}

// regression is a read model that went back from one event to an earlier one, at a time since
// the history began.
type regression struct {
	at       time.Duration
	id       string
	from, to int64
	// promoted says that the read model is of another generation than before, and unsettled that
	// the broker still had the messages of all events that it lost.
	promoted, unsettled bool
}

// generation is a number of a projection's definition.
type generation struct {
	projection string
	number     int64
}

// position is a position of the checkpoint that was stored at a time.
type position struct {
	read time.Time
	at   bson.Timestamp
}

func newObserver(w *World) *observer {
	return &observer{world: w, generations: make(map[generation]string), live: make(map[string]int64)}
}

// run reads until ctx ends.
func (o *observer) run(ctx context.Context) {
	poll.Every(ctx, 250*time.Millisecond, func() {
		if o.world.halted.Load() {
			return
		}
		if n := o.world.setBack.Load(); n != o.setBack {
			// What the state database has is older now, or new.
			o.setBack, o.epoch = n, 0
			clear(o.live)
			clear(o.generations)
		}
		o.readCheckpoint()
		built := o.builds
		o.readCatalog()
		if !o.world.restored.Load() {
			var unsettled map[string]bool
			if built || o.builds {
				unsettled = o.world.unsettled()
			}
			o.readModels(unsettled)
			o.readViews()
		}
	})
}

// readCatalog reads the generations of each projection. A number must have one definition for
// ever, and the live one must never be a lower one.
func (o *observer) readCatalog() {
	o.mu.Lock()
	defer o.mu.Unlock()
	find := func(format string, args ...any) {
		o.reused = append(o.reused, fmt.Sprintf("at %v: ", time.Since(o.world.history.began))+fmt.Sprintf(format, args...))
	}
	for _, entry := range o.world.state("projections") {
		name := text(entry, "_id")
		if !o.world.owns(name) {
			continue
		}
		for _, which := range []string{"live", "building"} {
			g, hash := generation{name, number(entry, which, "generation")}, text(entry, which, "hash")
			if g.number == 0 {
				continue
			}
			if before, ok := o.generations[g]; ok && before != hash {
				find("generation %d of %s had the definition %.8s and has %.8s", g.number, name, before, hash)
			}
			o.generations[g] = hash
		}
		if name == o.world.named("ledger") {
			o.builds = text(entry, "building", "hash") != ""
		}
		if live := number(entry, "live", "generation"); live > 0 {
			if live < o.live[name] {
				find("the live generation of %s went back from %d to %d", name, o.live[name], live)
			}
			o.live[name] = live
		}
	}
}

func (o *observer) readCheckpoint() {
	found := o.world.checkpoint()
	if o.world.plan.Now && !o.began && !found.ClusterTime.IsZero() {
		o.began = true
		o.world.begins(found.ClusterTime)
	}
	if found.Scan != nil || found.Token == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.saved); n > 0 && o.epoch == found.Epoch && found.ClusterTime.Before(o.saved[n-1].at) {
		o.back = append(o.back, fmt.Sprintf("at %v: the checkpoint of epoch %d went back from %v to %v",
			time.Since(o.world.history.began), o.epoch, o.saved[n-1].at, found.ClusterTime))
	}
	o.epoch = found.Epoch
	if n := len(o.saved); n == 0 || !o.saved[n-1].at.Equal(found.ClusterTime) {
		o.saved = append(o.saved, position{time.Now(), found.ClusterTime})
	}
}

// find notes what a reader must never see. The caller holds mu.
func (o *observer) find(format string, args ...any) {
	if len(o.findings) < 10 {
		o.findings = append(o.findings, fmt.Sprintf("at %v: ", time.Since(o.world.history.began))+fmt.Sprintf(format, args...))
	}
}

// unaware is how long documents of a former generation can be there after registrations have expired
// at once: a pod that is suspended writes them before it sees the catalog, and a sweep corrects them.
const unaware = 2 * time.Minute

// readModels reads the whole ledger. Its documents must be of one version, unless a pod that has lost
// its registration does not know that another one is live. unsettled are the messages that the
// broker had just before.
func (o *observer) readModels(unsettled map[string]bool) {
	read := o.world.models("ledger")
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := make(map[string]int64, len(read))
	leapt, _ := o.world.leapt.Load().(time.Time)
	version, live := int64(0), o.generation
	if len(read) > 0 {
		version, live = number(read[0], "version"), number(read[0], "lastGeneration")
	}
	for _, m := range read {
		if other := number(m, "version"); other != version && time.Since(leapt) > unaware {
			o.find("the ledger has documents of the versions %d and %d at once", other, version)
		}
		id, last := text(m, "_id"), number(m, "lastEventId")
		if last != o.seen[id] && !inOrder(m) {
			o.find("ledger %s has not each event once: %v", id, m)
		}
		seen[id] = last
	}
	for id, before := range o.seen {
		last := seen[id]
		if last >= before || o.world.isErased(id) || o.world.beginsAnew(id, last) || o.world.isRemoved(id) {
			continue
		}
		if last == 0 {
			if last = o.world.closed(id, before); last > before {
				continue
			}
		}
		r := regression{at: time.Since(o.world.history.began), id: id, from: before, to: seen[id], promoted: live != o.generation, unsettled: true}
		for event := last + 1; event <= before; event++ {
			r.unsettled = r.unsettled && unsettled[fmt.Sprintf("%s/%d", id, event)]
		}
		o.regressions = append(o.regressions, r)
	}
	o.generation, o.seen = live, seen
}

// inOrder reports whether a document of the ledger has each event that it lists once.
func inOrder(m bson.Raw) bool {
	array, _ := m.Lookup("seen").ArrayOK()
	seen, _ := array.Values()
	last := int64(-1)
	for _, v := range seen {
		event := v.AsInt64()
		if event <= last {
			return false
		}
		last = event
	}
	return number(m, "count") == int64(len(seen)) && last <= number(m, "lastEventId")
}

// closed returns an event that has closed an aggregate after the given one. If there is none, it returns
// the last one that has closed it before, or 0.
func (w *World) closed(id string, event int64) (closed int64) {
	for _, ev := range w.mongo.Documents(eventsDatabase, w.named("events")) {
		if text(ev, "aggregateId") == id && text(ev, "eventType") == "Closed" && closed <= event {
			closed = max(closed, number(ev, "eventId"))
		}
	}
	return closed
}
