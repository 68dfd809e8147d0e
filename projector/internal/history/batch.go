package history

import (
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// events checks every aggregate of the event store between two positions.
func (p *pass) events(ctx context.Context, from, until eventstore.Position) error {
	s := &scan{Workers: p.Workers, until: until}
	defer func() { s.close(ctx) }()
	if err := s.open(ctx, from); err != nil {
		return err
	}
	for {
		b, err := s.next(ctx)
		if err != nil {
			return err
		}
		if len(b.histories) == 0 {
			if err := p.finish(ctx); err != nil || b.unreadable == 0 {
				return err
			}
			p.counts[CountUnreadable] += int64(b.unreadable)
			return p.save(ctx, true)
		}
		p.readSinceWait += b.events
		if err := p.waitForRate(ctx); err != nil {
			return err
		}
		part := p.newPart()
		part.end = position{Events: b.end}
		part.counts[CountEvents] += int64(b.events)
		part.countUnreadable(b.unreadable)
		if err := p.histories(ctx, b.histories, part); err != nil {
			return err
		}
		if err := p.advance(ctx); err != nil {
			return err
		}
	}
}

// histories checks the aggregates of a batch.
func (p *pass) histories(ctx context.Context, histories []history, part *part) error {
	chosen := histories[:0]
	for _, h := range histories {
		if !p.params.sampled(h.id) {
			continue
		}
		part.counts[CountAggregates]++
		if h.long {
			// A long history is read page by page, from its first event.
			if err := p.confirm(ctx, &h.aggregate, part); err != nil {
				return err
			}
			part.countUnreadable(h.unreadable)
			continue
		}
		chosen = append(chosen, h)
	}
	for len(chosen) > 0 {
		units := make([]model.Unit, len(chosen))
		for i, h := range chosen {
			units[i] = p.target.Unit(h.id)
		}
		states, err := p.Store.Load(ctx, units)
		if err != nil {
			return fmt.Errorf("load %d read models: %w", len(units), err)
		}
		found, deferred, err := p.judgeAll(chosen, states, part)
		p.Store.Release(states)
		if err != nil {
			return err
		}
		for i := range found {
			if err := p.confirm(ctx, &found[i], part); err != nil {
				return err
			}
		}
		chosen = deferred
	}
	return nil
}

// confirm checks one aggregate alone, with all forms of its id. The caller releases the
// batch first, because a repair loads too.
func (p *pass) confirm(ctx context.Context, a *aggregate, part *part) error {
	finding, late, err := p.look(ctx, p.target, a)
	p.countRead(a)
	switch {
	case err != nil:
		return err
	case finding != nil:
		if err := p.settle(ctx, *a, finding, part); err != nil {
			return err
		}
	case late != nil:
		p.later(*a, late.Head, part)
	}
	return p.waitForRate(ctx)
}

// judgeAll judges the loaded read models. It returns the aggregates with a finding, and
// those whose loading was deferred.
func (p *pass) judgeAll(histories []history, states []model.State, part *part) (found []aggregate, deferred []history, err error) {
	for i, h := range histories {
		state := states[i]
		if state.Deferred {
			deferred = append(deferred, h)
			continue
		}
		if err := unavailable(&state); err != nil {
			return nil, nil, fmt.Errorf("load %s: %w", h.id, err)
		}
		j := newJudge(p.target, h.id, state, 0)
		j.add(h.events)
		// If a writer has folded newer events since these events were read, the watermark
		// is beyond the last of them. That looks like a finding here, and confirm checks
		// it again.
		finding, late := j.verdict()
		if finding != nil {
			found = append(found, h.aggregate)
		} else if late != nil {
			p.later(h.aggregate, late.Head, part)
		}
	}
	return found, deferred, nil
}
