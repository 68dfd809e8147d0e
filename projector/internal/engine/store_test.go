package engine_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// memory is a store without a database: one watermark and one document per unit. Its
// hooks inject faults.
type memory struct {
	mu        sync.Mutex
	documents map[model.Unit]bson.Raw
	marks     map[model.Unit]int64
	// times are the times of the documents' last changes, as a real store has them.
	times map[model.Unit]int64
	clock int64
	// loads and writes are the units of each call.
	loads  [][]model.Unit
	writes [][]model.Write
	// onLoad can fail a call. onWrite can answer instead of the store.
	onLoad  func(call int) error
	onWrite func(call int, w model.Write) *model.Written
	broken  map[model.Unit]error
	// unreleased counts the loads that were not released.
	unreleased int
	// room bounds the documents of one load; 0 means no bound.
	room int
	// slow runs before each write, outside of any lock.
	slow func(model.Unit)
	// foreign is the foreign document in every state.
	foreign *model.Foreign
	// down are the collections that cannot be loaded.
	down map[string]error
}

// liveTargets returns targets for the first generation of each projection.
func liveTargets(projections []*projection.Projection) []engine.Target {
	targets := make([]engine.Target, len(projections))
	for i, p := range projections {
		targets[i].Projection = p
	}
	return targets
}

func newMemory() *memory {
	return &memory{documents: map[model.Unit]bson.Raw{}, marks: map[model.Unit]int64{}, times: map[model.Unit]int64{}, broken: map[model.Unit]error{}}
}

func (m *memory) Load(ctx context.Context, units []model.Unit) ([]model.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads = append(m.loads, slices.Clone(units))
	if m.onLoad != nil {
		if err := m.onLoad(len(m.loads)); err != nil {
			return nil, err
		}
	}
	loaded := make([]model.State, len(units))
	for i, u := range units {
		if m.room > 0 && i >= m.room {
			loaded[i].Deferred = true
			continue
		}
		if err := m.down[u.Collection]; err != nil {
			loaded[i].Unavailable = err
			continue
		}
		loaded[i] = model.State{Document: m.documents[u], Watermark: m.marks[u], UpdatedAt: m.times[u], Err: m.broken[u], Foreign: m.foreign}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	m.unreleased++
	return loaded, nil
}

func (m *memory) Release([]model.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreleased--
}

func (m *memory) Write(_ context.Context, writes []model.Write) ([]model.Written, error) {
	if m.slow != nil {
		m.slow(writes[0].Unit)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, slices.Clone(writes))
	written := make([]model.Written, len(writes))
	for i, w := range writes {
		if m.onWrite != nil {
			if answer := m.onWrite(len(m.writes), w); answer != nil {
				written[i] = *answer
				continue
			}
		}
		if written[i].Status = m.apply(w); written[i].Status == model.Applied && (w.Kind == model.Create || w.Kind == model.Update) {
			written[i].UpdatedAt = m.times[w.Unit]
		}
	}
	return written, nil
}

func (m *memory) apply(w model.Write) model.Status {
	_, exists := m.documents[w.Unit]
	if m.marks[w.Unit] != w.From || w.Exact && m.times[w.Unit] != w.UpdatedAt || exists && w.Kind == model.Create {
		return model.Stale
	}
	m.marks[w.Unit] = w.To
	if w.Kind != model.Update || w.Update != nil {
		m.clock++
		m.times[w.Unit] = m.clock
	}
	switch w.Kind {
	case model.Create:
		m.documents[w.Unit] = projectiontest.Sorted(projectiontest.Content(w.Document))
	case model.Delete:
		delete(m.documents, w.Unit)
	case model.Update:
		m.documents[w.Unit] = projectiontest.Sorted(projectiontest.Updated(&rapid.T{}, projectiontest.Content(m.documents[w.Unit]), w.Update))
	}
	return model.Applied
}

// fakeParking is the list of parked units.
type fakeParking struct {
	parked map[model.Unit]*projection.Error
	heads  map[model.Unit]int64
	asked  int
	fail   error
	// onAdvance answers instead of Advance.
	onAdvance func() error
}

func newFakeParking() *fakeParking {
	return &fakeParking{parked: map[model.Unit]*projection.Error{}, heads: map[model.Unit]int64{}}
}

func (l *fakeParking) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	l.asked++
	parked := make([]model.Position, len(units))
	for i, u := range units {
		if cause := l.parked[u]; cause != nil {
			parked[i] = model.Position{EventID: cause.EventID, Resumes: cause.Reason.Resumes()}
		}
	}
	return parked, l.trouble()
}

func (l *fakeParking) Park(_ context.Context, parked []model.Marker) error {
	if err := l.trouble(); err != nil {
		return err
	}
	for _, p := range parked {
		l.parked[p.Unit] = &projection.Error{
			Projection: p.Projection, AggregateID: p.AggregateID, EventID: p.EventID,
			Reason: projection.Reason(p.Reason), Err: errors.New(p.Error),
		}
		l.heads[p.Unit] = p.Head
	}
	return nil
}

func (l *fakeParking) Advance(_ context.Context, heads []model.Head) error {
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
func (l *fakeParking) trouble() error {
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

func (h *history) First(ctx context.Context, ev *event.Event) (*event.Event, error) {
	found, err := h.Missing(ctx, ev, 0, math.MaxInt64, 1)
	if len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

var errTrouble = errors.New("trouble")

// bench is an engine with its fake dependencies.
type bench struct {
	*engine.Engine
	*memory
	parking *fakeParking
	history *history
}

// benchOptions are the options of a bench, and the targets of its engine; nil for none yet.
type benchOptions struct {
	engine.Options
	targets []engine.Target
}

func newBench(tb testing.TB, yaml string, change ...func(*benchOptions)) *bench {
	tb.Helper()
	b := &bench{memory: newMemory(), parking: newFakeParking(), history: &history{}}
	o := benchOptions{engine.Options{Store: b.memory, Parking: b.parking, Repairer: b.history}, liveTargets(projectiontest.All(tb, yaml))}
	for _, c := range change {
		c(&o)
	}
	b.Engine = engine.New(o.Options)
	if o.targets == nil {
		return b
	}
	if err := b.Set(o.targets); err != nil {
		tb.Fatal(err)
	}
	return b
}
