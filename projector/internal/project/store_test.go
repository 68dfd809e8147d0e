package project_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// memory is a store without a database: one watermark and one document a unit. Its
// hooks script what goes wrong.
type memory struct {
	mu        sync.Mutex
	documents map[project.Unit]bson.Raw
	marks     map[project.Unit]int64
	// loads and writes are the units of each call.
	loads  [][]project.Unit
	writes [][]project.Write
	// onLoad may fail a call, onWrite may answer in the store's place.
	onLoad  func(call int) error
	onWrite func(call int, w project.Write) *project.Written
	broken  map[project.Unit]error
	// unreleased counts the loads that were not released.
	unreleased int
	// room bounds the documents of one load; 0 for any number.
	room int
	// down are the collections that cannot be loaded.
	down map[string]error
}

func newMemory() *memory {
	return &memory{documents: map[project.Unit]bson.Raw{}, marks: map[project.Unit]int64{}, broken: map[project.Unit]error{}}
}

func (m *memory) Load(ctx context.Context, units []project.Unit) ([]project.Loaded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads = append(m.loads, slices.Clone(units))
	if m.onLoad != nil {
		if err := m.onLoad(len(m.loads)); err != nil {
			return nil, err
		}
	}
	loaded := make([]project.Loaded, len(units))
	for i, u := range units {
		if m.room > 0 && i >= m.room {
			loaded[i].Deferred = true
			continue
		}
		if err := m.down[u.Collection]; err != nil {
			loaded[i].Unavailable = err
			continue
		}
		loaded[i] = project.Loaded{Document: m.documents[u], Watermark: m.marks[u], Err: m.broken[u]}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	m.unreleased++
	return loaded, nil
}

func (m *memory) Release([]project.Loaded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreleased--
}

func (m *memory) Write(_ context.Context, writes []project.Write) ([]project.Written, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, slices.Clone(writes))
	written := make([]project.Written, len(writes))
	for i, w := range writes {
		if m.onWrite != nil {
			if answer := m.onWrite(len(m.writes), w); answer != nil {
				written[i] = *answer
				continue
			}
		}
		written[i].Status = m.apply(w)
	}
	return written, nil
}

func (m *memory) apply(w project.Write) project.WriteStatus {
	if m.marks[w.Unit] != w.From {
		return project.WriteStale
	}
	m.marks[w.Unit] = w.To
	switch w.Kind {
	case project.WriteCreate:
		m.documents[w.Unit] = sorted(contentOf(w.Document))
	case project.WriteDelete:
		delete(m.documents, w.Unit)
	case project.WriteUpdate:
		m.documents[w.Unit] = sorted(updated(&rapid.T{}, contentOf(m.documents[w.Unit]), w.Update))
	}
	return project.WriteApplied
}

// sorted makes a document of its fields in the order of their names.
func sorted(content map[string]bson.RawValue) bson.Raw {
	d := bson.D{}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		d = append(d, bson.E{Key: name, Value: content[name]})
	}
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return raw
}

// lot is the list of parked units.
type lot struct {
	parked map[project.Unit]*project.Error
	heads  map[project.Unit]int64
	asked  int
	fail   error
	// onAdvance answers in the place of Advance.
	onAdvance func() error
}

func newLot() *lot {
	return &lot{parked: map[project.Unit]*project.Error{}, heads: map[project.Unit]int64{}}
}

func (l *lot) Parked(_ context.Context, units []project.Unit) ([]project.Position, error) {
	l.asked++
	parked := make([]project.Position, len(units))
	for i, u := range units {
		if cause := l.parked[u]; cause != nil {
			parked[i] = project.Position{EventID: cause.EventID, Resumes: cause.Reason.Resumes()}
		}
	}
	return parked, l.trouble()
}

func (l *lot) Park(_ context.Context, parked []project.ParkedUnit) error {
	if err := l.trouble(); err != nil {
		return err
	}
	for _, p := range parked {
		l.parked[p.Unit], l.heads[p.Unit] = p.Cause, p.Head
	}
	return nil
}

func (l *lot) Advance(_ context.Context, heads []project.Head) error {
	if err := l.trouble(); err != nil {
		return err
	}
	if l.onAdvance != nil {
		return l.onAdvance()
	}
	for _, h := range heads {
		l.heads[h.Unit] = max(l.heads[h.Unit], h.EventID)
	}
	return nil
}

// trouble fails one call.
func (l *lot) trouble() error {
	err := l.fail
	l.fail = nil
	return err
}

// history is an event store.
type history struct {
	events []*event.Event
	asked  int
	fail   error
}

func (h *history) Missing(_ context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	h.asked++
	if err := h.fail; err != nil {
		h.fail = nil
		return nil, err
	}
	var found []*event.Event
	for _, stored := range h.events {
		if stored.AggregateID == ev.AggregateID && stored.EventID >= from && stored.EventID <= to && len(found) < limit {
			found = append(found, stored)
		}
	}
	return found, nil
}

var errTrouble = errors.New("trouble")

// bench is an engine with what it stands on.
type bench struct {
	*project.Engine
	*memory
	lot     *lot
	history *history
}

func newBench(tb testing.TB, yaml string, change ...func(*project.Options)) *bench {
	tb.Helper()
	projections, err := project.Parse("test.yaml", []byte(yaml))
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{memory: newMemory(), lot: newLot(), history: &history{}}
	o := project.Options{Projections: projections, Store: b.memory, Parking: b.lot, Repairer: b.history}
	for _, c := range change {
		c(&o)
	}
	if b.Engine, err = project.NewEngine(o); err != nil {
		tb.Fatal(err)
	}
	return b
}
