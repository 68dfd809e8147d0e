package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/memory"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/refold"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

// trial runs the projector's engine on stores in memory, for one run of a test case.
type trial struct {
	projections []*projection.Projection
	sequence    event.Sequence
	stores      *memory.Stores
	engine      *engine.Engine
	events      []*event.Event
	// generation is the one that State returns.
	generation int64
}

var _ testcase.Pipeline = (*trial)(nil)

func newTrial(projections []*projection.Projection, sequence event.Sequence) (*trial, error) {
	t := &trial{projections: projections, sequence: sequence, stores: memory.New(), generation: model.FirstGeneration}
	return t, t.start()
}

// start starts the projector, for the first time or after a crash.
func (t *trial) start() (err error) {
	t.stores.Restart()
	t.engine, err = engine.New(engine.Options{
		Targets: engine.Live(t.projections), Store: t.stores, Parking: t.stores, Repairer: t.stores,
		Sequence: t.sequence, Log: zerolog.Nop(),
	})
	return err
}

func (t *trial) Append(document bson.Raw) error {
	ev, err := t.stores.Append(document)
	if err != nil {
		return err
	}
	t.events = append(t.events, ev)
	return nil
}

func (t *trial) CrashAfterWrites() { t.stores.CrashAfterWrites() }

// maxWrites bounds the writes of one event in one projection: its document or watermark,
// its marker and the marker's head, and a repetition of each.
const maxWrites = 8

func (t *trial) Deliver(ctx context.Context, numbers []int) error {
	batch := make([]*event.Event, len(numbers))
	for i, n := range numbers {
		batch[i] = t.events[n]
	}
	for range 1 + maxWrites*len(batch)*len(t.projections) {
		results, err := t.engine.Process(ctx, batch, model.Repair)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t.stores.Crashed() {
			// The broker delivers the whole batch again.
			if err := t.start(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("apply %d events: %w", len(batch), err)
		}
		for i, r := range results {
			if !r.Outcome.Final() {
				return fmt.Errorf("apply event %d of aggregate %s: the projector does not finish it (outcome %s, missing event %d)", batch[i].EventID, batch[i].AggregateID, r.Outcome, r.Missing)
			}
		}
		return nil
	}
	return fmt.Errorf("apply %d events: the projector writes without end", len(batch))
}

// Rebuild builds the second generation of every projection, as a rebuild does.
func (t *trial) Rebuild(ctx context.Context) error {
	t.generation = model.FirstGeneration + 1
	targets := engine.Live(t.projections)
	for _, p := range t.projections {
		targets = append(targets, engine.Target{Projection: p, Generation: t.generation, Collection: t.collection(p), Building: true})
	}
	if err := t.engine.Set(targets); err != nil {
		return err
	}
	workers, err := refold.New(refold.Options{
		Source: t.stores, Targets: t.engine.Targets, Store: t.stores, Parking: t.stores,
		Engine: t.engine, Sequence: t.sequence, Logger: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	for _, p := range t.projections {
		building := job.Job{ID: "test", Kind: job.Build, Projection: p.Name(), Generation: t.generation}
		ranges, _, err := workers.Plan(ctx, building)
		if err != nil {
			return err
		}
		for _, bounds := range ranges {
			if err := workers.Work(ctx, building, job.Range{Bounds: bounds}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// collection names the collection whose documents State returns.
func (t *trial) collection(p *projection.Projection) string {
	if t.generation == model.FirstGeneration {
		return p.Collection()
	}
	return fmt.Sprintf("%s.generation-%d", p.Name(), t.generation)
}

func (t *trial) State() testcase.State {
	s := testcase.State{Documents: map[string]map[string]bson.Raw{}, Homeless: map[string][]string{}}
	for _, p := range t.projections {
		documents := t.stores.Documents(t.collection(p))
		for id, document := range documents {
			documents[id] = withoutGeneration(document)
		}
		s.Documents[p.Name()] = documents
		if v := p.View(); v != nil {
			s.Homeless[p.Name()] = t.homeless(p.Name(), v)
		}
	}
	for _, m := range t.stores.Markers() {
		if max(m.Generation, model.FirstGeneration) == t.generation {
			s.Parked = append(s.Parked, testcase.Parked{Projection: m.Projection, AggregateID: m.AggregateID, EventID: m.EventID, Reason: m.Reason, Error: m.Error})
		}
	}
	return s
}

// homeless returns the aggregates whose parts contribute to no document of a view.
func (t *trial) homeless(projection string, v model.View) (ids []string) {
	parts := t.stores.Parts(projection, t.generation)
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		if parts[id] != nil && len(v.Keys(parts[id])) == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// withoutGeneration removes the generation from a document, because the generation depends
// on how the document was made.
func withoutGeneration(document bson.Raw) bson.Raw {
	var d bson.D
	if err := bson.Unmarshal(document, &d); err != nil {
		return document
	}
	d = slices.DeleteFunc(d, func(e bson.E) bool { return e.Key == model.FieldLastGeneration })
	raw, err := bson.Marshal(d)
	if err != nil {
		return document
	}
	return raw
}

// testedProjections adapts projections to the cases of a test file.
func testedProjections(projections []*projection.Projection) []testcase.Projection {
	var tested []testcase.Projection
	for _, p := range projections {
		for _, s := range p.Sources() {
			tested = append(tested, testcase.Projection{Name: p.Name(), AggregateType: s.AggregateType, EventTypes: s.EventTypes, View: p.View() != nil})
		}
	}
	return tested
}
