package app

import (
	"context"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// deadLetters makes the counter of dead letters. It counts by all reasons for which the
// projectors and the broker dead-letter a message.
func (p *Projector) deadLetters(subscription sbus.Subscription) *deadletter.Counter {
	return deadletter.New(deadletter.Options{
		Dial:       deadletter.Dial(subscription),
		Interval:   p.config.Backlog.Interval,
		Reasons:    append(operate.Healable(), drain.ReasonInvalidMessageFormat),
		Registerer: p.registry,
		Logger:     p.logger,
	})
}

// applier brings the aggregates of dead letters up to date.
type applier struct {
	targets func() []engine.Target
	engine  engine.Pager
	parked  interface {
		Parked(ctx context.Context, units []model.Unit) ([]model.Position, error)
	}
	// entries are those of the catalog, and watermarks reads the watermarks of units. Both
	// are for projections in Go whose code only other pods have.
	entries    func() map[string]*generation.Entry
	watermarks func(ctx context.Context, units []model.Unit) ([]int64, error)
}

var _ deadletter.Applier = applier{}

// Apply folds the aggregate from the event store in every target that it concerns, and
// reports whether every target has the event, and every live read model that only other pods
// can fold. It does not touch parked aggregates: the parked list decides when they are
// retried. It returns false if the event store does not have the event, or if an earlier
// event is missing.
func (a applier) Apply(ctx context.Context, of deadletter.Aggregate, eventID int64) (bool, error) {
	concerned := slices.DeleteFunc(slices.Clone(a.targets()), func(t engine.Target) bool { return !t.Projection.ConcernsType(of.Type) })
	// Readers of a live generation must find the event again after a promotion.
	slices.SortStableFunc(concerned, func(x, y engine.Target) int {
		switch {
		case x.Building == y.Building:
			return 0
		case x.Building:
			return -1
		}
		return 1
	})
	units := make([]model.Unit, len(concerned))
	for i, t := range concerned {
		units[i] = t.Unit(of.ID)
	}
	positions, err := a.parked.Parked(ctx, units)
	if err != nil {
		return false, err
	}
	for i, t := range concerned {
		if positions[i] != (model.Position{}) {
			return false, nil
		}
		has, err := a.fold(ctx, t, of, eventID)
		if !has || err != nil {
			return false, err
		}
	}
	return a.appliedElsewhere(ctx, of, eventID)
}

// appliedElsewhere reports whether the live read models that this pod cannot fold have the
// event, and whether the aggregate is parked in none of them.
func (a applier) appliedElsewhere(ctx context.Context, of deadletter.Aggregate, eventID int64) (bool, error) {
	own := a.targets()
	var units []model.Unit
	for _, live := range generation.Targets(a.entries()) {
		served := slices.ContainsFunc(own, func(t engine.Target) bool {
			return t.Projection.Name() == live.Projection && t.Generation == live.Generation
		})
		if live.Building || served {
			continue
		}
		scope, err := projection.ScopeOf(live.Text)
		if err != nil {
			return false, err
		}
		if scope.Concerns(of.Type) {
			units = append(units, model.Unit{Projection: live.Projection, Generation: live.Generation, Collection: live.Collection, AggregateID: of.ID, Parts: scope.View})
		}
	}
	if len(units) == 0 {
		return true, nil
	}
	positions, err := a.parked.Parked(ctx, units)
	if err != nil || slices.ContainsFunc(positions, func(p model.Position) bool { return p != model.Position{} }) {
		return false, err
	}
	watermarks, err := a.watermarks(ctx, units)
	return err == nil && !slices.ContainsFunc(watermarks, func(w int64) bool { return w < eventID }), err
}

// fold folds the aggregate in one target up to the event.
func (a applier) fold(ctx context.Context, t engine.Target, of deadletter.Aggregate, eventID int64) (bool, error) {
	resumed, err := engine.CatchUp(ctx, a.engine, engine.Suspended{
		Projection: t.Projection.Name(), Generation: t.Generation,
		AggregateID: of.ID, RawAggregateID: of.Raw, Head: eventID,
	}, nil)
	if err != nil || resumed.Watermark >= eventID {
		return err == nil, err
	}
	if cause := resumed.Cause; cause != nil && cause.Reason == projection.ReasonUnavailable {
		return false, cause
	}
	return false, nil
}
