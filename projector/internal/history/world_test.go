package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// stored is one event of the test's event store.
type stored struct {
	aggregate, aggregateType string
	id                       int64
	// poison cannot be folded. broken documents lack their type.
	poison, broken bool
	// kind is the type of an event for a projection in YAML; empty for one that apply folds.
	kind string
}

func (e stored) document() any {
	d := bson.D{
		{Key: "aggregateId", Value: e.aggregate}, {Key: "eventId", Value: e.id}, {Key: "aggregateType", Value: e.aggregateType},
		{Key: "payload", Value: bson.D{{Key: "n", Value: e.id}, {Key: "text", Value: "text"}}},
	}
	if !e.broken {
		d = append(d, bson.E{Key: "eventType", Value: cmp.Or(e.kind, map[bool]string{false: "Good", true: "Poison"}[e.poison])})
	}
	return d
}

// historyOf is events 1 to n of an aggregate.
func historyOf(aggregate string, n int64) []stored {
	var events []stored
	for id := range n {
		events = append(events, stored{aggregate: aggregate, aggregateType: "Order", id: id + 1})
	}
	return events
}

// customer is a history of which no event concerns the projection.
func customer(aggregate string, n int64) []stored {
	events := historyOf(aggregate, n)
	for i := range events {
		events[i].aggregateType = "Customer"
	}
	return events
}

// histories are n events of each aggregate, which are named a-00, a-01 and so on.
func histories(aggregates int, n int64) []stored {
	var events []stored
	for i := range aggregates {
		events = append(events, historyOf(fmt.Sprintf("a-%02d", i), n)...)
	}
	return events
}

// before reports whether a position is before an event.
func before(p eventstore.Position, e stored) bool {
	if id := p.AggregateID.StringValue(); id != e.aggregate {
		return e.aggregate < id
	}
	if n, ok := p.EventID.AsInt64OK(); ok {
		return e.id < n
	}
	return p.EventID.Type == bson.TypeMaxKey
}

// world has the real engine over the real event store and the real read models of generation 2 of
// the projection orders, which folds an aggregate to the list of its event ids. The parked list is
// in memory.
type world struct {
	*parts
	engine *engine.Engine
	log    []stored
	// outage is the error of a store that cannot be reached.
	outage error

	mu     sync.Mutex
	parked map[string]model.Marker
	// hook is called before every request, and wrote after each write of the workers.
	hook  func() error
	wrote func()
	// requests counts the requests for watermarks and the writes. together is the largest number
	// of writes in one of them. loads counts the requests for documents, and opened the ranges that
	// were read.
	requests, together, loads, opened int
	// size is by how many bytes the read models are larger.
	size int
	// untold says that the server takes too long to tell the types of aggregates.
	untold bool
	// unfolded counts the events that were read and not folded yet, and most is its maximum.
	unfolded, most int
	// unreadable are the aggregates whose documents cannot be read.
	unreadable map[string]bool
}

func newWorld(t *testing.T, events ...stored) *world { t.Helper(); return newWorldOf(t, "", events...) }

// newWorldOf is a world with a projection in YAML; empty for the one of a world.
func newWorldOf(t *testing.T, yaml string, events ...stored) *world {
	t.Helper()
	w := &world{parts: newParts(t, 2), log: events, parked: map[string]model.Marker{}, hook: func() error { return nil }, wrote: func() {}}
	var documents []any
	for _, e := range events {
		documents = append(documents, e.document())
	}
	if len(documents) > 0 {
		if _, err := w.events.InsertMany(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if yaml != "" {
		w.projection = projectiontest.One(t, yaml)
	} else if w.projection, err = projection.New(projection.Declaration{Name: "orders", Collection: "orders", AggregateType: "Order", Apply: w.apply}); err != nil {
		t.Fatal(err)
	}
	w.engine = engine.New(engine.Options{Store: w, Parking: w, Repairer: w.reader, Reachable: w.reachable})
	if err := w.engine.Set(w.targets()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) reachable(context.Context) error { return w.outage }

// workers makes workers whose saves follow each other closely.
func (w *world) workers(set ...func(*Options)) *Workers {
	o := Options{Events: reads{w.reader, w}, Targets: w.targets, Store: w, Repairer: w, Parking: w, Engine: w.engine, Reachable: w.reachable, SaveEvery: 1}
	for _, change := range set {
		change(&o)
	}
	return New(o)
}

// the work of a job on all events, and its counts.
func (w *world) build(t *testing.T) map[string]int64 { t.Helper(); return w.do(t, w.workers().build) }
func (w *world) sweep(t *testing.T) map[string]int64 { t.Helper(); return w.do(t, w.workers().sweep) }

func (*world) do(t *testing.T, work func(context.Context, job.Job, span, job.Progress) error) map[string]int64 {
	t.Helper()
	s := &saver{saves: -1}
	if err := work(t.Context(), testJob, span{}, s); err != nil {
		t.Fatal(err)
	}
	return s.r.counts
}

func applied(from, to int64) (text string) {
	for id := from; id <= to; id++ {
		text += fmt.Sprintf("%d,", id)
	}
	return text
}

// apply is the projection.
func (w *world) apply(state projection.State, ev *event.Event) (projection.State, error) {
	w.mu.Lock()
	w.unfolded--
	w.mu.Unlock()
	if ev.EventType == "Poison" {
		return nil, errors.New("poison")
	}
	var f struct {
		Applied string `bson:"applied"`
		Padding []byte `bson:"padding,omitempty"`
	}
	if state != nil {
		if err := bson.Unmarshal(state, &f); err != nil {
			return nil, err
		}
	}
	f.Applied, f.Padding = f.Applied+applied(ev.EventID, ev.EventID), make([]byte, w.size)
	return bson.Marshal(f)
}

// has stores the read model of an aggregate as of an event.
func (w *world) has(t *testing.T, aggregate string, watermark, generation int64) {
	t.Helper()
	if _, err := w.database.Collection("orders.generation-2").InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: aggregate}, {Key: "applied", Value: applied(1, watermark)}, {Key: "lastEventId", Value: watermark}, {Key: "lastGeneration", Value: generation},
	}); err != nil {
		t.Fatal(err)
	}
}

// hasNone stores that an aggregate has no document as of an event.
func (w *world) hasNone(t *testing.T, aggregate string, watermark int64) {
	t.Helper()
	id := bson.D{{Key: "projection", Value: "orders"}, {Key: "aggregateId", Value: aggregate}, {Key: "generation", Value: int64(2)}}
	if _, err := w.database.Collection("watermarks").UpdateByID(t.Context(), id, bson.D{{Key: "$set", Value: bson.D{{Key: "lastEventId", Value: watermark}}}}, options.UpdateOne().SetUpsert(true)); err != nil {
		t.Fatal(err)
	}
}

// models returns what is applied in each document; "old" for one of another generation.
func (w *world) models(t *testing.T) map[string]string {
	t.Helper()
	cursor, err := w.database.Collection("orders.generation-2").Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var documents []struct {
		ID         string `bson:"_id"`
		Applied    string `bson:"applied"`
		Generation int64  `bson:"lastGeneration"`
	}
	if err := cursor.All(t.Context(), &documents); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range documents {
		found[d.ID] = d.Applied
		if d.Generation != 2 {
			found[d.ID] = "old"
		}
	}
	return found
}

// check compares every read model with all events of its aggregate.
func (w *world) check(t *testing.T) {
	t.Helper()
	want := map[string]string{}
	for _, e := range w.log {
		if e.aggregateType == "Order" {
			want[e.aggregate] += applied(e.id, e.id)
		}
	}
	w.want(t, want)
	if len(w.parked) > 0 {
		t.Errorf("parked %v", w.parked)
	}
}

func (w *world) want(t *testing.T, want map[string]string) {
	t.Helper()
	if got := w.models(t); !maps.Equal(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
}

// reads are the requests to the event store.
type reads struct {
	*eventstore.Reader
	w *world
}

func (r reads) Read(document bson.Raw) (event.Event, error) {
	r.w.mu.Lock()
	r.w.unfolded++
	r.w.most = max(r.w.most, r.w.unfolded)
	r.w.mu.Unlock()
	return r.Reader.Read(document)
}

func (r reads) OfTypes(ctx context.Context, ids []bson.RawValue, types []string, since bson.Timestamp) (map[string]bson.RawValue, error) {
	if r.w.untold {
		return nil, mongox.ErrNoAnswer
	}
	return r.Reader.OfTypes(ctx, ids, types, since)
}

func (r reads) Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error) {
	if err := r.w.request(&r.w.opened, 0); err != nil {
		return nil, err
	}
	return r.Reader.Open(ctx, from, until, since)
}

func (w *world) request(counter *int, writes int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	*counter++
	w.together = max(w.together, writes)
	return w.hook()
}

func (w *world) Load(ctx context.Context, units []model.Unit) ([]model.State, error) {
	if err := w.request(&w.loads, 0); err != nil {
		return nil, err
	}
	states, err := w.parts.Load(ctx, units)
	return w.withoutUnreadable(units, states), err
}

func (w *world) withoutUnreadable(units []model.Unit, states []model.State) []model.State {
	for i := range states {
		if w.unreadable[units[i].AggregateID] {
			states[i] = model.State{Unavailable: errors.New("host unreachable")}
		}
	}
	return states
}

func (w *world) SetAside(ctx context.Context, u model.Unit, watermark int64) (bool, error) {
	if err := w.request(&w.loads, 0); err != nil {
		return false, err
	}
	return w.parts.SetAside(ctx, u, watermark)
}

func (w *world) Watermarks(ctx context.Context, units []model.Unit) ([]model.State, error) {
	if err := w.request(&w.requests, 0); err != nil {
		return nil, err
	}
	states, err := w.parts.Watermarks(ctx, units)
	return w.withoutUnreadable(units, states), err
}

func (w *world) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	if err := w.request(&w.requests, len(writes)); err != nil {
		return nil, err
	}
	defer w.wrote()
	return w.parts.Write(ctx, writes)
}

func (w *world) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	positions := make([]model.Position, len(units))
	for i, u := range units {
		m := w.parked[u.AggregateID]
		positions[i] = model.Position{EventID: m.EventID, Resumes: m.Resumes}
	}
	return positions, nil
}

func (w *world) Park(_ context.Context, markers []model.Marker) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range markers {
		w.parked[m.AggregateID] = m
	}
	return nil
}

func (*world) Advance(context.Context, []model.Head) error { return nil }

// saver stores the position of a range.
type saver struct {
	mu sync.Mutex
	r  span
	// saves counts down to the save that fails; negative means that none fails.
	saves  int
	stored bool
}

var errKilled = errors.New("killed")

func (s *saver) Save(_ context.Context, at bson.Raw, counts map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := s.saves == 0
	s.saves--
	if !killed || s.stored {
		s.r.counts = maps.Clone(counts)
		if err := bson.Unmarshal(at, &s.r.position); err != nil {
			return err
		}
	}
	if killed {
		return errKilled
	}
	return nil
}

func wantCounts(t *testing.T, got, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%d %s, want %d", got[name], name, n)
		}
	}
}

var testJob = job.Job{ID: "orders.2.build", Projection: "orders", Generation: 2}
