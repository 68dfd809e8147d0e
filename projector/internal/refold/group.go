package refold

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// groupHistories and groupBytes bound the histories that are written together, and
	// their read models. The last one of a group can be larger.
	groupHistories = 1000
	groupBytes     = 4 << 20
	// liveShare divides both while live events flow, so that live writes do not wait behind
	// a large write.
	liveShare = 16
	// following is how many aggregates of a group continue from their watermarks
	// concurrently.
	following = 8
)

// group is a number of histories that are written together.
type group struct {
	histories []*history
	bytes     int
	// end is the position after the last history.
	end    eventstore.Position
	counts counts
	done   chan struct{}
	err    error
}

// counts are the counts of a group or a range; see the Count constants.
type counts struct {
	events, aggregates, written, parked, unreadable, behind int64
	// failed are the parked aggregates whose events cannot be folded.
	failed int64
}

func (c *counts) add(other counts) {
	c.events += other.events
	c.aggregates += other.aggregates
	c.written += other.written
	c.parked += other.parked
	c.unreadable += other.unreadable
	c.behind += other.behind
	c.failed += other.failed
}

func (c *counts) asMap() map[string]int64 {
	return map[string]int64{
		CountEvents: c.events, CountAggregates: c.aggregates, CountWritten: c.written,
		CountParked: c.parked, CountFailed: c.failed, CountUnreadable: c.unreadable, CountBehind: c.behind,
	}
}

func countsOf(m map[string]int64) counts {
	return counts{
		events: m[CountEvents], aggregates: m[CountAggregates], written: m[CountWritten],
		parked: m[CountParked], failed: m[CountFailed], unreadable: m[CountUnreadable], behind: m[CountBehind],
	}
}

// full reports whether the group must be written.
func (w *Workers) full(g *group) bool {
	share := 1
	if w.Pace.Yielding() {
		share = liveShare
	}
	return len(g.histories) >= max(w.groupHistories/share, 1) || g.bytes >= w.groupBytes/share
}

func (g *group) add(h *history) {
	g.histories = append(g.histories, h)
	// A small history can have a large read model.
	g.bytes += max(h.bytes, h.fold.Size())
	g.counts.aggregates++
	g.end = eventstore.After(h.raw)
}

// write writes each history of the group, and parks or follows those that cannot be
// written. When it returns without an error, every history is durable or parked.
func (w *Workers) write(ctx context.Context, g *group) error {
	writes := make([]model.Write, 0, len(g.histories))
	written := make([]*history, 0, len(g.histories))
	var again, parked []*history
	for _, h := range g.histories {
		if !h.concerned {
			continue
		}
		write, ok := h.fold.Write(h.unit)
		if !ok {
			// The first event failed or is missing. The watermark shows how to continue.
			again = append(again, h)
			continue
		}
		writes, written = append(writes, write), append(written, h)
	}
	if len(writes) > 0 {
		results, err := w.Store.Write(ctx, writes)
		if err != nil {
			return fmt.Errorf("write read models: %w", err)
		}
		for i, result := range results {
			switch h := written[i]; {
			case result.Status != model.Applied:
				again = append(again, h)
			case h.failure != nil && h.failed() == writes[i].To+1:
				g.counts.written++
				parked = append(parked, h)
			case !h.complete():
				g.counts.written++
				again = append(again, h)
			default:
				g.counts.written++
			}
		}
	}
	for _, h := range g.histories {
		h.fold = nil
	}
	if err := w.loadWatermarks(ctx, again); err != nil {
		return err
	}
	var behind []*history
	for _, h := range again {
		switch {
		case h.watermark >= h.last:
		case h.failure != nil && h.watermark == h.failed()-1:
			parked = append(parked, h)
		default:
			behind = append(behind, h)
		}
	}
	if err := w.park(ctx, parked); err != nil {
		return err
	}
	g.counts.parked += int64(len(parked))
	g.counts.failed += int64(len(parked))
	return w.followAll(ctx, behind, &g.counts)
}

// failed is the event that failed.
func (h *history) failed() int64 { return h.failure.Marker(h.unit, h.raw, h.last).EventID }

// park parks histories at the events that cannot be folded.
func (w *Workers) park(ctx context.Context, histories []*history) error {
	if len(histories) == 0 {
		return nil
	}
	markers := make([]model.Marker, len(histories))
	for i, h := range histories {
		markers[i] = h.failure.Marker(h.unit, h.raw, h.last)
	}
	if err := w.Parking.Park(ctx, markers); err != nil {
		return fmt.Errorf("park %d aggregates: %w", len(markers), err)
	}
	return nil
}

// loadWatermarks reads the watermarks of histories, and whether they have a foreign document.
func (w *Workers) loadWatermarks(ctx context.Context, histories []*history) error {
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

// states gives the state of each unit. A unit that can never be loaded gets the watermark
// 0; following it finds the reason.
func (w *Workers) states(ctx context.Context, units []model.Unit) ([]model.State, error) {
	if len(units) == 0 {
		return nil, nil
	}
	states, err := w.Store.Watermarks(ctx, units)
	if err != nil {
		return nil, fmt.Errorf("load watermarks: %w", err)
	}
	for i := range states {
		if err := states[i].Unavailable; err != nil {
			return nil, fmt.Errorf("load the watermark of %s: %w", units[i].AggregateID, err)
		}
	}
	return states, nil
}

// followAll continues histories from their watermarks, several concurrently.
func (w *Workers) followAll(ctx context.Context, histories []*history, total *counts) error {
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
