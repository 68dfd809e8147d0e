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
		write, ok := h.fold.Write(h.unit, model.State{})
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

// maxUnread bounds the requests for watermarks of one call that may fail while the others
// succeed.
const maxUnread = 64

// states gives the state of each unit. A unit that cannot be loaded, unlike others, gets the
// watermark 0; following it finds the reason and parks it.
func (w *Workers) states(ctx context.Context, units []model.Unit) ([]model.State, error) {
	unread := 0
	return w.statesOf(ctx, units, &unread)
}

// statesOf gives the state of each unit. If a request fails, it repeats the request for both
// halves of the units, because one document may be the reason. unread counts the requests
// that have failed.
func (w *Workers) statesOf(ctx context.Context, units []model.Unit, unread *int) ([]model.State, error) {
	if len(units) == 0 {
		return nil, nil
	}
	states, err := w.Store.Watermarks(ctx, units)
	if err != nil {
		return nil, fmt.Errorf("load watermarks: %w", err)
	}
	failed := slices.IndexFunc(states, func(s model.State) bool {
		return s.Unavailable != nil && !errors.Is(s.Unavailable, model.ErrSuperseded)
	})
	if failed < 0 {
		return states, nil
	}
	if *unread++; *unread > maxUnread || w.Reachable != nil && w.Reachable(ctx) != nil {
		return nil, fmt.Errorf("load the watermark of %s: %w", units[failed].AggregateID, states[failed].Unavailable)
	}
	if len(units) == 1 {
		return states, nil
	}
	half := len(units) / 2
	first, err := w.statesOf(ctx, units[:half], unread)
	if err != nil {
		return nil, err
	}
	second, err := w.statesOf(ctx, units[half:], unread)
	return append(first, second...), err
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
