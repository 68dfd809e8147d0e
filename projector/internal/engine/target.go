package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Target is one generation of a projection that the engine folds events into.
type Target struct {
	// Projection is the definition of the generation.
	Projection *projection.Projection
	// Generation counts the definitions of the projection, from 1; 0 means the first one.
	Generation int64
	// Collection holds the documents; empty means the projection's own.
	Collection string
	// Building says that readers do not see the generation. An event that can never be
	// applied to it parks the aggregate only in this generation, and the event's message is
	// not dead-lettered for that.
	Building bool
	// Defers says that events that cannot be applied immediately may be left to the job
	// that builds the generation; only with Building. Such an event is Done for the target.
	// So a later sweep must find the events that the store has when the last target that
	// defers is replaced.
	Defers bool
	// Erased is set if an aggregate was erased whose events are gone. Then a new aggregate can have a
	// watermark, [model.Erased], though it has no document.
	Erased bool
	// FromZero is set if event ids begin at 0; see [model.Unit].
	FromZero bool
}

// Succeeds reports whether the target can replace a live one at any time: it gets every event.
// While it defers, no promotion comes.
func (t *Target) Succeeds(live *Target) bool {
	return t.Building && !t.Defers && !live.Building && t.Projection.Name() == live.Projection.Name()
}

// String names the target in errors.
func (t *Target) String() string {
	return fmt.Sprintf("generation %d of %s", t.Generation, t.Projection.Name())
}

// Unit is an aggregate in the target.
func (t *Target) Unit(aggregateID string) model.Unit {
	return model.Unit{
		Projection: t.Projection.Name(), Generation: t.Generation, Collection: t.Collection,
		AggregateID: aggregateID, Deletes: t.Projection.Deletes(), Parts: t.Projection.View() != nil, FromZero: t.FromZero,
	}
}

// complete replaces zero values by their meaning.
func (t Target) complete() *Target {
	t.Generation = max(t.Generation, model.FirstGeneration)
	if t.Collection == "" && t.Projection != nil {
		t.Collection = t.Projection.Collection()
	}
	return &t
}

// same reports whether a batch that has begun with one target may continue with the other.
func (t *Target) same(o *Target) bool {
	return t.Projection.Name() == o.Projection.Name() && t.Generation == o.Generation &&
		t.Collection == o.Collection && t.Building == o.Building && t.Defers == o.Defers && t.Erased == o.Erased
}

// snapshot is a set of targets. It never changes.
type snapshot []*Target

func newSnapshot(targets []Target) (snapshot, error) {
	var problems []error
	type key struct {
		name       string
		generation int64
	}
	s := make(snapshot, len(targets))
	taken, live, collections := map[key]bool{}, map[string]bool{}, map[string]string{}
	for i, target := range targets {
		t := target.complete()
		s[i] = t
		if t.Projection == nil {
			problems = append(problems, fmt.Errorf("target %d has no projection", i))
			continue
		}
		if k := (key{t.Projection.Name(), t.Generation}); taken[k] {
			problems = append(problems, fmt.Errorf("%s is there twice", t))
		} else {
			taken[k] = true
		}
		if other, ok := collections[t.Collection]; ok {
			problems = append(problems, fmt.Errorf("%s and %s share the collection %s", other, t, t.Collection))
		}
		collections[t.Collection] = t.String()
		switch {
		case t.Defers && !t.Building:
			problems = append(problems, fmt.Errorf("%s is live, so it must not defer events", t))
		case !t.Building && live[t.Projection.Name()]:
			problems = append(problems, fmt.Errorf("%s is not the only one that is live", t))
		case !t.Building:
			live[t.Projection.Name()] = true
		}
	}
	return s, errors.Join(problems...)
}

// find returns the target of a generation of a projection; nil if it is not in the set.
func (s snapshot) find(name string, generation int64) *Target {
	for _, t := range s {
		if t.Projection.Name() == name && t.Generation == max(generation, model.FirstGeneration) {
			return t
		}
	}
	return nil
}

// Set replaces the targets. Running batches continue with the targets that stay. Their
// units in the other targets end with [model.ErrSuperseded]. No event of a running batch is Done
// after Set, so that the events are offered again under the new set. Set does not wait for running
// batches, and does not end a pause ([Engine.Continue] does).
func (e *Engine) Set(targets []Target) error {
	next, err := newSnapshot(targets)
	if err != nil {
		return fmt.Errorf("set the targets of the projection engine: %w", err)
	}
	e.setting.Lock()
	defer e.setting.Unlock()
	if before := e.targets.Load(); before != nil {
		for i, t := range next {
			if kept := before.find(t.Projection.Name(), t.Generation); kept != nil && kept.same(t) {
				next[i] = kept
			}
		}
	}
	for _, t := range next {
		e.metrics.declare(t.Projection.Name())
	}
	e.targets.Store(&next)
	return nil
}

// Targets returns the present targets, in the order in which they were set.
func (e *Engine) Targets() []Target {
	now := e.snapshot()
	targets := make([]Target, len(now))
	for i, t := range now {
		targets[i] = *t
	}
	return targets
}

// snapshot returns the present targets; nil if none were ever set.
func (e *Engine) snapshot() snapshot {
	if s := e.targets.Load(); s != nil {
		return *s
	}
	return nil
}

// serves reports whether a target is one of the present ones.
func (e *Engine) serves(t *Target) bool { return slices.Contains(e.snapshot(), t) }

// errNoTargets says that no targets are set yet.
var errNoTargets = errors.New("the projections to write are not known yet")
