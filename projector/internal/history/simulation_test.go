package history_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// simulation is an event store, read models and live writers in memory. It runs happens before
// it answers a request.
type simulation struct {
	// The other methods are not called.
	history.Events
	history.Repairer
	tb         testing.TB
	reader     *event.Reader
	projection *projection.Projection
	// happens runs before each answer.
	happens func()
	// store holds the events of each aggregate, and models its document or side
	// watermark.
	store  map[string][]*event.Event
	models map[string]*stored
	// odd are the ids of documents whose _id is not a string. They are not in models.
	odd    []string
	parked map[string]model.Position
	// writing are the pending writes of live writers that have loaded and not written
	// yet.
	writing []func()
	time    time.Time
	put     []history.Finding
	calls   int
	// page is the number of events per page, at least 3.
	page int
	// from replaces the simulation's own event store; nil means that it does not.
	from history.Events
	// still keeps live writers from finishing while the worker waits.
	still bool
	// replaced is when another generation is promoted; zero for never.
	replaced time.Time
	// current is the option of the worker.
	current func(ctx context.Context, projection string, generation int64) error
	// wrong lists the documents that a write of the verifier has left wrong.
	wrong []string
	// limit is the worker's rate limit; nil for none.
	limit func(ctx context.Context, events int) (end func(), err error)
	// loads is called before read models are loaded; nil for nothing.
	loads func()
}

// readModels are the read models of a simulation.
type readModels struct{ *simulation }

func (readModels) Watermarks(context.Context, []model.Unit) ([]model.State, error) {
	return nil, errors.New("not called")
}

// stored is the document or the side watermark of an aggregate.
type stored struct {
	document bson.Raw
	side     int64
	hasSide  bool
}

func newSimulation(tb testing.TB, definition string) *simulation {
	tb.Helper()
	return &simulation{
		tb: tb, reader: testkit.EventReader(), projection: projectiontest.One(tb, definition), happens: func() {},
		store: map[string][]*event.Event{}, models: map[string]*stored{}, parked: map[string]model.Position{}, time: time.Unix(1e9, 0),
	}
}

func (w *simulation) step() {
	w.calls++
	w.happens()
}

// append adds an event to the store.
func (w *simulation) append(id, kind, aggregateType string, n int) {
	last := int64(0)
	if events := w.store[id]; len(events) > 0 {
		last = events[len(events)-1].EventID
	}
	document := testkit.Raw(bson.D{
		{Key: "aggregateId", Value: id}, {Key: "eventId", Value: last + 1}, {Key: "eventType", Value: kind}, {Key: "aggregateType", Value: aggregateType},
		{Key: "payload", Value: bson.D{{Key: "n", Value: n}, {Key: "text", Value: fmt.Sprint(n)}}},
	})
	ev, err := w.Read(document)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.store[id] = append(w.store[id], &ev)
}

func (w *simulation) of(id string) *stored {
	s := w.models[id]
	if s == nil {
		s = &stored{}
		w.models[id] = s
	}
	return s
}

func (w *simulation) unit(id string) model.Unit {
	return model.Unit{Projection: w.projection.Name(), Collection: w.projection.Collection(), AggregateID: id, Deletes: w.projection.Deletes()}
}

// documentOf returns a document in the engine's format.
func documentOf(id string, watermark, generation int64, own bson.Raw) bson.Raw {
	document := bson.D{{Key: "_id", Value: id}, {Key: "lastEventId", Value: watermark}, {Key: "lastUpdatedAt", Value: time.Unix(watermark, 0)}, {Key: "lastGeneration", Value: generation}}
	elements, _ := own.Elements()
	for _, e := range elements {
		document = append(document, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return testkit.Raw(document)
}

func int64Of(document bson.Raw, field string, missing int64) int64 {
	if v, err := document.LookupErr(field); err == nil {
		if n, ok := v.AsInt64OK(); ok {
			return n
		}
	}
	return missing
}

// state returns the state that a loader would return now.
func (w *simulation) state(id string) model.State {
	s := w.of(id)
	if s.document != nil {
		if _, err := s.document.LookupErr("lastEventId"); err != nil {
			return model.State{Err: fmt.Errorf("the document has no lastEventId")}
		}
		watermark := int64Of(s.document, "lastEventId", 0)
		switch generation := int64Of(s.document, "lastGeneration", 1); {
		case generation > 1:
			return model.State{Unavailable: model.ErrSuperseded}
		case generation < 1:
			return model.State{Watermark: s.side, Foreign: &model.Foreign{Generation: generation, Watermark: watermark}}
		}
		return model.State{Document: bytes.Clone(s.document), Watermark: watermark}
	}
	return model.State{Watermark: s.side}
}

// beginLive lets a live writer load an aggregate and fold some of its next events. The
// returned function writes under the guard.
func (w *simulation) beginLive(id string, most int) (write func(), behind bool) {
	if w.parked[id] != (model.Position{}) {
		return nil, false
	}
	state := w.state(id)
	if state.Err != nil || state.Unavailable != nil {
		return nil, false
	}
	acc := w.projection.Begin(state.Document, 0)
	var next []*event.Event
	concerned := int64(0)
	for _, ev := range w.store[id] {
		if w.projection.Concerns(ev) {
			concerned = ev.EventID
		}
	}
	for _, ev := range w.store[id] {
		if ev.EventID > state.Watermark && ev.EventID <= concerned && len(next) < most {
			next = append(next, ev)
		}
	}
	if len(next) == 0 {
		return nil, false
	}
	if err := acc.Add(next); err != nil {
		w.tb.Fatal(err)
	}
	change, ok := acc.Write(w.unit(id), state)
	if !ok {
		return nil, false
	}
	own := acc.State()
	return func() { w.carryOut(change, own) }, true
}

// carryOut applies a write under the same guards as the writer of read models. own is the
// whole document after the write.
func (w *simulation) carryOut(change model.Write, own bson.Raw) model.Written {
	id := change.AggregateID
	s := w.of(id)
	now := w.state(id)
	if change.Foreign != nil {
		if now.Foreign == nil || *now.Foreign != *change.Foreign {
			return model.Written{Status: model.Stale}
		}
		s.document = nil
	} else if now.Foreign != nil && change.Kind != model.MoveWatermark && change.Kind != model.Delete && change.Kind != model.Erase {
		return model.Written{Status: model.Stale}
	}
	matches := s.document != nil && now.Document != nil && now.Watermark == change.From
	switch change.Kind {
	case model.MoveWatermark, model.Erase:
		s.side, s.hasSide = max(s.side, change.To), true
	case model.Create:
		if s.document != nil || change.Deletes && s.side != change.From {
			return model.Written{Status: model.Stale}
		}
		s.document = documentOf(id, change.To, 1, own)
	case model.Update:
		if !matches {
			return model.Written{Status: model.Stale}
		}
		s.document = documentOf(id, change.To, 1, projectiontest.Sorted(projectiontest.Updated(&rapid.T{}, projectiontest.Content(s.document), change.Update)))
	case model.Delete:
		s.side, s.hasSide = max(s.side, change.To), true
		if !matches {
			return model.Written{Status: model.Stale}
		}
		s.document = nil
	}
	return model.Written{Status: model.Applied}
}

// settle lets every live writer finish, and updates every read model to its last event.
func (w *simulation) settle() {
	for _, write := range w.writing {
		write()
	}
	w.writing = nil
	for _, id := range w.ids() {
		for range 1000 {
			write, behind := w.beginLive(id, 100)
			if !behind {
				break
			}
			write()
		}
	}
}

func (w *simulation) ids() []string { return slices.Sorted(maps.Keys(w.store)) }

// worker returns a worker that verifies the simulation. While it waits, live writers finish.
func (w *simulation) worker() *history.Workers {
	worker := history.New(history.Options{
		Events: cmp.Or(w.from, history.Events(w)), Store: readModels{w}, Repairer: w, Parking: w, Listing: w, Findings: w, Ranges: 3,
		Target: func(context.Context, string, int64) (engine.Target, error) {
			if !w.replaced.IsZero() && w.time.After(w.replaced) {
				return engine.Target{}, job.Permanent(errors.New("the projection has no generation 1 any more"))
			}
			return engine.Target{Projection: w.projection, Collection: w.projection.Collection()}, nil
		},
		Current: w.current,
	})
	worker.SetLimit(w.limit)
	worker.SetLong(4096)
	worker.SetClock(func() time.Time { return w.time }, func(_ context.Context, d time.Duration) error {
		w.time = w.time.Add(d)
		if !w.still {
			w.settle()
		}
		w.step()
		return nil
	})
	return worker
}

// saved is the saved progress of a range.
type saved struct {
	position bson.Raw
	counts   map[string]int64
}

func (s *saved) Save(_ context.Context, position bson.Raw, counts map[string]int64) error {
	s.position, s.counts = position, counts
	return nil
}

// verify runs a job and returns the findings by aggregate and the counts.
func (w *simulation) verify(p history.Params) (map[string]history.Finding, map[string]int64) {
	w.tb.Helper()
	w.put = nil
	j := job.Job{ID: "j", Kind: job.Verify, Projection: w.projection.Name(), Generation: 1, Params: testkit.Raw(p)}
	worker := w.worker()
	ranges, _, err := worker.Plan(context.Background(), j)
	if err != nil {
		w.tb.Fatal(err)
	}
	counts := map[string]int64{}
	for _, bounds := range ranges {
		var s saved
		if err := worker.Work(context.Background(), j, job.Range{Part: bounds}, &s); err != nil {
			w.tb.Fatal(err)
		}
		for name, n := range s.counts {
			counts[name] += n
		}
	}
	found := map[string]history.Finding{}
	for _, f := range w.put {
		found[f.AggregateID] = f
	}
	return found, counts
}
