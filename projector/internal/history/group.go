package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// following is how many aggregates of a group continue from their watermarks concurrently.
const following = 8

// counts are the counts of a group or a range; see the Count constants.
type counts map[string]int64

// copyOf returns a copy of saved counts, which can be nil.
func copyOf(saved map[string]int64) counts {
	c := counts{}
	c.add(saved)
	return c
}

func (c counts) add(other map[string]int64) {
	for name, n := range other {
		c[name] += n
	}
}

// write writes folded histories of the group, and follows those that cannot be written as a
// whole.
func (b *build) write(ctx context.Context, g *group, folds []*folded) error {
	writes := make([]model.Write, 0, len(folds))
	written := make([]*folded, 0, len(folds))
	var again []*folded
	for _, h := range folds {
		if !h.concerned {
			continue
		}
		write, ok := h.fold.Write(h.unit, model.State{Watermark: h.unit.NoEvent()})
		if !ok {
			// The first event failed or is missing. The watermark shows how to continue.
			again = append(again, h)
			continue
		}
		write.Building = b.target.Building
		writes, written = append(writes, write), append(written, h)
	}
	if len(writes) > 0 {
		results, err := b.Store.Write(ctx, writes)
		if err != nil {
			return fmt.Errorf("write read models: %w", err)
		}
		for i, result := range results {
			if result.Status == model.Applied {
				g.counts[CountWritten]++
			}
			if h := written[i]; result.Status != model.Applied || !h.complete() {
				again = append(again, h)
			}
		}
	}
	for _, h := range folds {
		h.fold = nil
	}
	if err := b.loadWatermarks(ctx, again); err != nil {
		return err
	}
	behind := slices.DeleteFunc(again, func(h *folded) bool { return h.watermark >= h.last })
	return b.followAll(ctx, behind, g.counts)
}

// loadWatermarks reads the watermarks of histories, and whether they have a foreign document.
func (w *Workers) loadWatermarks(ctx context.Context, histories []*folded) error {
	units := make([]model.Unit, len(histories))
	for i, h := range histories {
		units[i] = h.unit
	}
	states, err := w.states(ctx, units)
	for i := range states {
		histories[i].watermark, histories[i].foreign = states[i].Watermark, states[i].Foreign
	}
	return err
}

// maxUnread bounds the units of one call that may be unavailable while the others are not.
const maxUnread = 64

// states gives the state of each unit. A unit that cannot be loaded, unlike others, gets the
// watermark 0; following it finds the reason and parks it.
func (w *Workers) states(ctx context.Context, units []model.Unit) ([]model.State, error) {
	if len(units) == 0 {
		return nil, nil
	}
	states, err := w.Store.Watermarks(ctx, units)
	if err != nil {
		return nil, fmt.Errorf("load watermarks: %w", err)
	}
	unread := 0
	for i := range states {
		cause := states[i].Unavailable
		if cause == nil || errors.Is(cause, model.ErrSuperseded) {
			continue
		}
		if unread++; unread > maxUnread || unread == 1 && w.Reachable != nil && w.Reachable(ctx) != nil {
			return nil, fmt.Errorf("load the watermark of %s: %w", units[i].AggregateID, cause)
		}
	}
	return states, nil
}

// followAll continues histories from their watermarks, several concurrently.
func (w *Workers) followAll(ctx context.Context, histories []*folded, total counts) error {
	if len(histories) == 0 {
		return nil
	}
	var mu sync.Mutex
	var errs []error
	var work sync.WaitGroup
	free := make(chan struct{}, following)
	for _, h := range histories {
		free <- struct{}{}
		work.Go(func() {
			defer func() { <-free }()
			c, err := w.follow(ctx, h)
			mu.Lock()
			defer mu.Unlock()
			total.add(c)
			if err != nil && len(errs) < 3 {
				errs = append(errs, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}
