package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// The types of the test's events.
const (
	typeGood = "Good"
	// typePoison cannot be folded.
	typePoison = "Poison"
	// aggregateType is the aggregate type of the target.
	aggregateType = "Order"
)

// stored is one event of the fake store.
type stored struct {
	aggregate, aggregateType string
	id                       int64
	kind                     string
	// broken documents lack their type.
	broken bool
}

func (e stored) raw() bson.Raw {
	d := bson.D{{Key: "aggregateId", Value: e.aggregate}, {Key: "eventId", Value: e.id}, {Key: "aggregateType", Value: e.aggregateType}}
	if !e.broken {
		d = append(d, bson.E{Key: "eventType", Value: e.kind})
	}
	return testkit.Raw(d)
}

func byPosition(a, b stored) int {
	return cmp.Or(cmp.Compare(a.aggregate, b.aggregate), cmp.Compare(a.id, b.id))
}

// fakeStores is an event store, the read models of one generation, and its parked list, in
// memory. Its hook is called before every request, without the lock.
type fakeStores struct {
	// The other methods are not called.
	Events
	Repairer
	engine.Store
	mu     sync.Mutex
	events []stored
	// models has the applied ids of each aggregate in their order. watermarks has the
	// last event of each. A watermark without a model is a side watermark.
	models     map[string]string
	watermarks map[string]int64
	// foreign are documents of older generations under an aggregate's id.
	foreign map[string]model.Foreign
	parked  map[string]model.Marker
	page    int
	hook    func() error
	reader  *event.Reader
	// requests counts loads and writes, and together is the largest number of writes in one
	// of them.
	requests, together int
	// target is generation 2 of the projection orders, which folds an aggregate to the list of
	// its event ids. size is by how many bytes its read models are larger.
	target engine.Target
	size   int
	// unfolded counts the events that were read and not folded yet, and most is its maximum.
	unfolded, most int
	// unknown is the number of next writes that are executed but not answered.
	unknown int
	// rejected are the aggregates whose writes the store rejects.
	rejected map[string]bool
	// unreadable are the aggregates whose documents make every request for them fail.
	unreadable map[string]bool
}

func newFakeStores(events ...stored) *fakeStores {
	w := &fakeStores{
		events: events, models: map[string]string{}, watermarks: map[string]int64{}, parked: map[string]model.Marker{}, foreign: map[string]model.Foreign{},
		page: 3, reader: testkit.EventReader(), rejected: map[string]bool{}, hook: func() error { return nil },
	}
	p, err := projection.New(projection.Declaration{Name: "orders", Collection: "orders", AggregateType: aggregateType, Apply: w.apply})
	if err != nil {
		panic(err)
	}
	w.target = engine.Target{Projection: p, Generation: 2, Collection: "orders.generation-2"}
	return w
}

// history is events 1 to n of an aggregate.
func historyOf(aggregate string, n int64) []stored {
	var events []stored
	for id := range n {
		events = append(events, stored{aggregate: aggregate, aggregateType: aggregateType, id: id + 1, kind: typeGood})
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

// sorted returns the current index.
func (w *fakeStores) sorted() []stored {
	index := slices.Clone(w.events)
	slices.SortStableFunc(index, byPosition)
	return index
}

// place compares a position with the events of its aggregate: before them (-1) or after
// them (1).
func before(p eventstore.Position, e stored) bool {
	id := p.AggregateID.StringValue()
	if id != e.aggregate {
		return e.aggregate < id
	}
	if n, ok := p.EventID.AsInt64OK(); ok {
		return e.id < n
	}
	return p.EventID.Type == bson.TypeMaxKey
}

func (w *fakeStores) between(from, until eventstore.Position) []stored {
	var found []stored
	for _, e := range w.sorted() {
		if !from.IsZero() && before(from, e) || !until.IsZero() && !before(until, e) {
			continue
		}
		found = append(found, e)
	}
	return found
}

func (w *fakeStores) OperationTime(context.Context) (bson.Timestamp, error) {
	return bson.Timestamp{T: 1}, w.hook()
}

func (w *fakeStores) Count(context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.events)), nil
}

func (w *fakeStores) Split(_ context.Context, n int) ([]eventstore.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	index := w.sorted()
	var found []eventstore.Position
	last := ""
	for i := 1; i < n && len(index) > 0; i++ {
		if id := index[i*len(index)/n].aggregate; id > last && id != index[0].aggregate {
			found = append(found, eventstore.Before(testkit.Value(id)))
			last = id
		}
	}
	return found, nil
}

func (w *fakeStores) Read(document bson.Raw) (event.Event, error) {
	w.mu.Lock()
	w.unfolded++
	w.most = max(w.most, w.unfolded)
	w.mu.Unlock()
	return w.reader.Read(document)
}

func (w *fakeStores) Open(_ context.Context, from, until eventstore.Position, _ bson.Timestamp) (eventstore.Cursor, error) {
	return &fakeCursor{fakeStores: w, from: from, until: until}, w.hook()
}

func (w *fakeStores) Heads(_ context.Context, from, until eventstore.Position, _ bson.Timestamp) (eventstore.HeadCursor, error) {
	return &fakeHeads{fakeCursor{fakeStores: w, from: from, until: until}}, w.hook()
}

// fakeCursor reads the events that are stored when a page is read.
type fakeCursor struct {
	fakeStores  *fakeStores
	from, until eventstore.Position
	last        stored
}

func (c *fakeCursor) Next(context.Context) ([]bson.Raw, error) {
	if err := c.fakeStores.hook(); err != nil {
		return nil, err
	}
	c.fakeStores.mu.Lock()
	defer c.fakeStores.mu.Unlock()
	var page []bson.Raw
	for _, e := range c.fakeStores.between(c.from, c.until) {
		if byPosition(e, c.last) > 0 && len(page) < c.fakeStores.page {
			page = append(page, e.raw())
			c.last = e
		}
	}
	if len(page) == 0 {
		return nil, eventstore.ErrEnd
	}
	return page, nil
}

func (c *fakeCursor) Close(context.Context) error { return nil }

type fakeHeads struct{ fakeCursor }

func (c *fakeHeads) Next(context.Context) ([]eventstore.Head, error) {
	if err := c.fakeStores.hook(); err != nil {
		return nil, err
	}
	c.fakeStores.mu.Lock()
	defer c.fakeStores.mu.Unlock()
	var page []eventstore.Head
	for _, e := range c.fakeStores.between(c.from, c.until) {
		if e.aggregate <= c.last.aggregate {
			continue
		}
		if n := len(page); n > 0 && page[n-1].AggregateID == e.aggregate {
			page[n-1].Last, page[n-1].Events = e.id, page[n-1].Events+1
			continue
		}
		if len(page) == c.fakeStores.page {
			break
		}
		page = append(page, eventstore.Head{AggregateID: e.aggregate, RawAggregateID: testkit.Value(e.aggregate), First: e.id, Last: e.id, Events: 1})
	}
	if len(page) == 0 {
		return nil, eventstore.ErrEnd
	}
	c.last.aggregate = page[len(page)-1].AggregateID
	return page, nil
}

func (w *fakeStores) targets() []engine.Target { return []engine.Target{w.target} }

func applied(id int64) string { return fmt.Sprintf("%d,", id) }

// folded is the read model of an aggregate.
type foldState struct {
	Applied string `bson:"applied"`
	Padding []byte `bson:"padding"`
}

// apply is the projection.
func (w *fakeStores) apply(state projection.State, ev *event.Event) (projection.State, error) {
	w.mu.Lock()
	w.unfolded--
	w.mu.Unlock()
	if ev.EventType == typePoison {
		return nil, errors.New("poison")
	}
	f := foldState{Padding: make([]byte, w.size)}
	if state != nil {
		if err := bson.Unmarshal(state, &f); err != nil {
			return nil, err
		}
	}
	f.Applied += applied(ev.EventID)
	return bson.Marshal(f)
}

// stop is the failure of an aggregate at an event.
func stop(id int64, reason projection.Reason) *projection.Error {
	return &projection.Error{EventID: id, Reason: reason, Err: errors.New(string(reason))}
}

func (w *fakeStores) Watermarks(_ context.Context, units []model.Unit) ([]model.State, error) {
	if err := w.hook(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	states := make([]model.State, len(units))
	fails := slices.ContainsFunc(units, func(u model.Unit) bool { return w.unreadable[u.AggregateID] })
	for i, u := range units {
		if fails {
			states[i].Unavailable = errors.New("host unreachable")
			continue
		}
		states[i] = model.State{Watermark: w.watermarks[u.AggregateID]}
		if foreign, ok := w.foreign[u.AggregateID]; ok {
			states[i].Foreign = &foreign
		}
	}
	return states, nil
}

func (w *fakeStores) RemoveForeign(_ context.Context, unit model.Unit, foreign model.Foreign) (bool, error) {
	if err := w.hook(); err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	there := w.foreign[unit.AggregateID] == foreign
	if there {
		delete(w.foreign, unit.AggregateID)
	}
	return there, nil
}

func (w *fakeStores) Write(_ context.Context, writes []model.Write) ([]model.Written, error) {
	if err := w.hook(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if writes[0].Building != w.target.Building {
		return nil, fmt.Errorf("a write says that its generation is being built: %v", writes[0].Building)
	}
	w.requests++
	w.together = max(w.together, len(writes))
	results := make([]model.Written, len(writes))
	for i, write := range writes {
		switch {
		case w.unreadable[write.AggregateID]:
			results[i].Err = errors.New("host unreachable")
		case w.rejected[write.AggregateID]:
			results[i] = model.Written{Status: model.Rejected, Err: errors.New("validation")}
		case w.watermarks[write.AggregateID] != write.From || w.foreign[write.AggregateID] != (model.Foreign{}):
			results[i].Status = model.Stale
		default:
			w.models[write.AggregateID] += write.Document.Lookup("applied").StringValue()
			w.watermarks[write.AggregateID] = write.To
			results[i].Status = model.Applied
			if w.unknown > 0 {
				w.unknown--
				results[i] = model.Written{Status: model.Unknown, Err: errors.New("connection lost")}
			}
		}
	}
	return results, nil
}

func (w *fakeStores) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	if err := w.hook(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	positions := make([]model.Position, len(units))
	for i, u := range units {
		m := w.parked[u.AggregateID]
		positions[i] = model.Position{EventID: m.EventID, Resumes: m.Resumes}
	}
	return positions, nil
}

func (w *fakeStores) Park(_ context.Context, markers []model.Marker) error {
	if err := w.hook(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range markers {
		w.parked[m.AggregateID] = m
	}
	return nil
}

// Resume does what the engine does, one event at a time.
func (w *fakeStores) Resume(_ context.Context, s engine.Suspended) (engine.Resumed, error) {
	if err := w.hook(); err != nil {
		return engine.Resumed{}, err
	}
	unit, raw, head := w.target.Unit(s.AggregateID), s.RawAggregateID, s.Head
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.watermarks[unit.AggregateID]
	if w.unreadable[unit.AggregateID] {
		failed := stop(1, projection.ReasonUnavailable)
		if !s.Parks {
			return engine.Resumed{Cause: failed}, nil
		}
		w.parked[unit.AggregateID] = failed.Marker(unit, raw, head)
		return engine.Resumed{Cause: failed, Parked: true}, nil
	}
	if v >= head {
		return engine.Resumed{Watermark: v}, nil
	}
	defer func() {
		if w.watermarks[unit.AggregateID] > v {
			delete(w.foreign, unit.AggregateID)
		}
	}()
	for _, e := range w.sorted() {
		if e.aggregate != unit.AggregateID || e.id <= v || e.id > head {
			continue
		}
		switch {
		case e.id != v+1 || e.broken:
			return engine.Resumed{Watermark: v, Cause: stop(v+1, projection.ReasonMissing)}, nil
		case e.kind == typePoison:
			failed := stop(e.id, projection.ReasonExpression)
			w.parked[unit.AggregateID] = failed.Marker(unit, raw, head)
			return engine.Resumed{Watermark: v, Cause: failed, Parked: true}, nil
		case w.rejected[unit.AggregateID]:
			failed := stop(e.id, projection.ReasonRejected)
			w.parked[unit.AggregateID] = failed.Marker(unit, raw, head)
			return engine.Resumed{Watermark: v, Cause: failed, Parked: true}, nil
		}
		w.models[unit.AggregateID] += applied(e.id)
		w.watermarks[unit.AggregateID] = e.id
		return engine.Resumed{Watermark: e.id}, nil
	}
	return engine.Resumed{Watermark: v, Cause: stop(v+1, projection.ReasonMissing)}, nil
}

// deliver does what the live stream does. It applies an event that follows the watermark
// of a unit that is not parked, and leaves all others to the workers.
func (w *fakeStores) deliver(e stored) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.aggregateType != aggregateType || e.broken || e.id != w.watermarks[e.aggregate]+1 || w.parked[e.aggregate].EventID > 0 || w.rejected[e.aggregate] {
		return
	}
	if e.kind == typePoison {
		w.parked[e.aggregate] = stop(e.id, projection.ReasonExpression).Marker(w.target.Unit(e.aggregate), testkit.Value(e.aggregate), e.id)
		return
	}
	w.models[e.aggregate] += applied(e.id)
	w.watermarks[e.aggregate] = e.id
}

// expected folds an aggregate independently, and returns the event at which it is parked.
func (w *fakeStores) expected(aggregate string) (fold string, parkedAt int64) {
	concerned := false
	v := int64(0)
	for _, e := range w.sorted() {
		if e.aggregate != aggregate {
			continue
		}
		switch {
		case e.broken:
			continue
		case e.aggregateType == aggregateType:
			concerned = true
		}
		switch {
		case parkedAt > 0:
		case e.id != v+1:
			parkedAt = v + 1
		case e.kind == typePoison:
			parkedAt = e.id
		default:
			fold += applied(e.id)
			v = e.id
		}
	}
	if !concerned {
		return "", 0
	}
	return fold, parkedAt
}

// check compares every read model with the independent fold.
func (w *fakeStores) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string]bool{}
	for _, e := range w.events {
		names[e.aggregate] = true
	}
	for name := range w.models {
		names[name] = true
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fold, parkedAt := w.expected(name)
		if w.models[name] != fold || w.parked[name].EventID != parkedAt {
			wrong = append(wrong, fmt.Sprintf("%s is %q, parked at %d (%s); want %q, %d", name, w.models[name], w.parked[name].EventID, w.parked[name].Reason, fold, parkedAt))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// saver stores the position of a range.
type saver struct {
	mu sync.Mutex
	r  span
	// saves counts down to the save that fails; negative means that none fails.
	saves  int
	stored bool
}

var errKilled = errors.New("killed")

func (s *saver) Save(_ context.Context, position bson.Raw, counts map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := s.saves == 0
	s.saves--
	if !killed || s.stored {
		s.r.counts = maps.Clone(counts)
		if err := bson.Unmarshal(position, &s.r.position); err != nil {
			return err
		}
	}
	if killed {
		return errKilled
	}
	return nil
}
