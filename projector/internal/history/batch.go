package history

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// batchEvents and batchBytes bound the events of one batch. A batch can exceed them
	// by one page.
	batchEvents = 4096
	batchBytes  = 8 << 20
)

// history holds the events of one aggregate, or the first of them.
type history struct {
	aggregate
	events []*event.Event
	// cut is set if the aggregate has more events than these.
	cut bool
}

// scan reads histories from the event store.
type scan struct {
	events  Events
	until   eventstore.Position
	cursor  eventstore.Cursor
	pending []*event.Event
	bytes   int
	ended   bool
}

// open starts reading at a position.
func (s *scan) open(ctx context.Context, from eventstore.Position) (err error) {
	s.pending, s.bytes = nil, 0
	s.cursor, err = s.events.Open(ctx, from, s.until, bson.Timestamp{})
	s.ended = s.cursor == nil
	return err
}

func (s *scan) close(ctx context.Context) {
	if s.cursor != nil {
		_ = mongox.CloseCursor(ctx, s.cursor)
		s.cursor = nil
	}
}

// next returns the next histories and the position after them; no histories at the end. A
// history is cut only if it is the only one returned.
func (s *scan) next(ctx context.Context) (histories []history, after eventstore.Position, read int, err error) {
	for !s.ended && len(s.pending) < batchEvents && s.bytes < batchBytes {
		page, err := s.cursor.Next(ctx)
		if errors.Is(err, eventstore.ErrEnd) {
			s.ended = true
			break
		}
		if err != nil {
			return nil, after, 0, err
		}
		for _, document := range page {
			ev, err := s.events.Read(document)
			if err != nil {
				// An unreadable event cannot be projected, so it counts as missing.
				continue
			}
			s.pending = append(s.pending, &ev)
			s.bytes += len(document)
		}
	}
	if len(s.pending) == 0 {
		return nil, after, 0, nil
	}
	n := len(s.pending)
	if !s.ended {
		last := s.pending[n-1].AggregateID
		for n > 0 && s.pending[n-1].AggregateID == last {
			n--
		}
	}
	cut := n == 0
	if cut {
		n = len(s.pending)
	}
	for _, ev := range s.pending[:n] {
		if len(histories) == 0 || histories[len(histories)-1].id != ev.AggregateID {
			histories = append(histories, history{aggregate: aggregate{id: ev.AggregateID, raw: ev.RawAggregateID}, cut: cut})
		}
		h := &histories[len(histories)-1]
		h.events = append(h.events, ev)
	}
	after = eventstore.After(histories[len(histories)-1].raw)
	s.pending = append([]*event.Event(nil), s.pending[n:]...)
	s.bytes = 0
	for _, ev := range s.pending {
		s.bytes += len(ev.Document)
	}
	if cut {
		s.close(ctx)
		err = s.open(ctx, after)
	}
	return histories, after, n, err
}

// events checks every aggregate of the event store between two positions.
func (p *pass) events(ctx context.Context, from, until eventstore.Position) error {
	s := &scan{events: p.Events, until: until}
	defer func() { s.close(ctx) }()
	if err := s.open(ctx, from); err != nil {
		return err
	}
	for {
		histories, after, read, err := s.next(ctx)
		if err != nil {
			return err
		}
		if len(histories) == 0 {
			return p.finish(ctx)
		}
		p.readSinceWait += read
		if err := p.waitForRate(ctx); err != nil {
			return err
		}
		part := p.newPart()
		part.end = position{Events: after}
		part.counts[CountEvents] += int64(read)
		if err := p.histories(ctx, histories, part); err != nil {
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
		if h.cut {
			// A long history is read page by page, from its first event.
			if err := p.confirm(ctx, &h.aggregate, part); err != nil {
				return err
			}
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
