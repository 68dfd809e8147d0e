package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

const (
	// erasePoll is the pause between two looks at a promotion, and eraseWait how long the command
	// waits for its end.
	erasePoll = time.Second
	eraseWait = time.Minute
)

// readModels folds the aggregate again in each generation that has documents. It ends when no
// generation has been promoted meanwhile.
func (r *erasing) readModels(ctx context.Context) error {
	return r.e.withReadModels(ctx, r.s, func(store history.Store) error {
		worker := newVerifier(r.e.Config, r.s.Stores, r.declared, store, r.s.parked, r.e.Logger)
		for end := time.Now().Add(eraseWait); ; {
			targets, err := r.targets(ctx)
			if err != nil {
				return err
			}
			superseded := r.refold(ctx, worker, targets)
			if superseded != nil && !errors.Is(superseded, model.ErrSuperseded) {
				return superseded
			}
			again, err := r.targets(ctx)
			if err != nil || superseded == nil && slices.EqualFunc(targets, again, sameTarget) {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("%w: wait for the end of the promotion, or rebuild the projection after a restore", superseded)
			}
			if err := poll.Wait(ctx, erasePoll); err != nil {
				return err
			}
		}
	})
}

func sameTarget(a, b eraseTarget) bool {
	return a.Projection.Name() == b.Projection.Name() && a.Generation == b.Generation && a.Collection == b.Collection
}

// eraseTarget is a generation that has documents.
type eraseTarget struct {
	engine.Target
	// idle says that no projector writes the generation, so that it gets no new read model.
	idle bool
	// promoting says that the generation, or the one before it, is just being replaced.
	promoting bool
}

// targets returns the live and the building generations. Unlike [catalog.Targets], it has those that
// no projector writes at present: they have documents, too.
func (r *erasing) targets(ctx context.Context) (targets []eraseTarget, err error) {
	mine, err := r.mine(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		live, building := mine[name].Live, mine[name].Building
		promoting := building != nil && building.State == catalog.Promoting
		var numbers []int64
		if live != nil {
			numbers = append(numbers, live.Generation)
		}
		if building != nil && building.Prepared() {
			numbers = append(numbers, building.Generation)
		}
		for _, number := range numbers {
			t, err := r.declared.target(ctx, name, number)
			if err != nil {
				return nil, err
			}
			idle := mine[name].RetiredAt != nil || live != nil && number == live.Generation && live.Frozen
			targets = append(targets, eraseTarget{t, idle, promoting})
		}
	}
	return targets, nil
}

// units returns the aggregate in each of the targets.
func (r *erasing) units(targets []eraseTarget) []model.Unit {
	units := make([]model.Unit, len(targets))
	for i := range targets {
		units[i] = targets[i].Unit(r.Aggregate)
	}
	return units
}

// refold folds the aggregate again into each of the targets. The error is [model.ErrSuperseded] only
// if all others were folded.
func (r *erasing) refold(ctx context.Context, worker *history.Workers, targets []eraseTarget) error {
	units := r.units(targets)
	states, err := worker.Store.Watermarks(ctx, units)
	if err != nil {
		return err
	}
	var superseded error
	for i := range targets {
		t, s := &targets[i], &states[i]
		if t.promoting {
			superseded = fmt.Errorf("projection %s: %w", units[i].Projection, model.ErrSuperseded)
			continue
		}
		if t.idle && s.Watermark == units[i].NoEvent() && s.Foreign == nil && s.Err == nil && s.Unavailable == nil {
			continue
		}
		err := worker.Refold(ctx, &t.Target, r.Aggregate)
		switch {
		case errors.Is(err, model.ErrSuperseded):
			superseded = err
		case err != nil:
			return err
		default:
			r.counts["refolded"]++
		}
	}
	return superseded
}

// abandonedParts deletes the watermarks of the aggregate in generations that are neither live nor being
// built. Projectors have deleted them, and a backup of the read models can bring them back. A build that
// begins meanwhile has a higher number.
func (r *erasing) abandonedParts(ctx context.Context) error {
	mine, err := r.mine(ctx)
	if err != nil {
		return err
	}
	for name, e := range mine {
		n, err := readmodel.ForgetAbandoned(ctx, r.s.ReadModels, name, r.Aggregate, e.Generations, e.Current())
		r.counts["watermarks"] += n
		if err != nil {
			return err
		}
	}
	return nil
}
