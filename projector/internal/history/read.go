package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// aggregate identifies an aggregate in the read models and in the event store.
type aggregate struct {
	id string
	// raw is the id in the event store; its Type is 0 if the store does not have the
	// aggregate.
	raw bson.RawValue
	// read is the number of documents that were read alone and are not counted for the rate yet.
	read int
	// unreadable is how many documents of the last such read break the contract.
	unreadable int
}

// history has the events of one aggregate.
type history struct {
	aggregate
	events []*event.Event
	// long says that the events do not fit into a batch: they must be read alone, page by page.
	long bool
}

// batch is a number of whole histories.
type batch struct {
	histories []history
	// end is the position after the last history.
	end eventstore.Position
	// events is the number of documents of these histories, except for a long one. unreadable
	// is the number of those that break the contract and were left out.
	events, unreadable int
}

// limits bound a batch. Its last history can exceed them, up to long events or longBytes.
type limits struct{ histories, events, bytes, long, longBytes int }

// batchLimits are those of a process. While live events flow, a batch is smaller by liveShare, so
// that live writes do not wait behind a large write.
var batchLimits = limits{histories: 1000, events: 4096, bytes: 4 << 20, long: 16_384, longBytes: 8 << 20}

const liveShare = 16

// scan reads the whole histories of a range, in the order of the event store.
type scan struct {
	*Workers
	until   eventstore.Position
	since   bson.Timestamp
	cursor  eventstore.Cursor
	pending []*event.Event
	// unreadable counts the documents that were left out since the last batch.
	unreadable int
	ended      bool
}

// open starts reading at a position.
func (s *scan) open(ctx context.Context, from eventstore.Position) (err error) {
	s.pending = nil
	s.cursor, err = mongox.Within(ctx, readTimeout, func(ctx context.Context) (eventstore.Cursor, error) {
		return s.Events.Open(ctx, from, s.until, s.since)
	})
	s.ended = s.cursor == nil
	return err
}

func (s *scan) close(ctx context.Context) {
	if s.cursor != nil {
		s.closeCursor(ctx, s.cursor)
		s.cursor = nil
	}
}

// next returns the next batch. A batch without histories is the last one.
func (s *scan) next(ctx context.Context) (b batch, err error) {
	for {
		n, long := s.ready()
		if long {
			ev := s.pending[0]
			b.histories = []history{{aggregate: aggregate{id: ev.AggregateID, raw: ev.RawAggregateID}, long: true}}
			b.end = eventstore.After(ev.RawAggregateID)
			s.close(ctx)
			s.unreadable = 0
			return b, s.open(ctx, b.end)
		}
		if n > 0 || s.ended {
			return s.take(n), nil
		}
		if err := s.page(ctx); err != nil {
			return b, err
		}
	}
}

// ready returns how many of the pending events are a batch of whole histories; 0 if more must be
// read. long says that the first history is too long for a batch.
func (s *scan) ready() (n int, long bool) {
	share := 1
	if s.Pace.Yielding() {
		share = liveShare
	}
	histories, bytes := 0, 0
	for i, ev := range s.pending {
		if i > 0 && ev.AggregateID != s.pending[i-1].AggregateID {
			n = i
			if histories++; histories >= max(s.limits.histories/share, 1) || i >= s.limits.events/share || bytes >= s.limits.bytes/share {
				return n, false
			}
		}
		bytes += len(ev.Document)
	}
	if s.ended {
		return len(s.pending), false
	}
	if full := len(s.pending) >= s.limits.events/share || bytes >= s.limits.bytes/share; n > 0 && full {
		return n, false
	}
	return 0, n == 0 && (len(s.pending) >= s.limits.long || bytes >= s.limits.longBytes)
}

// take makes a batch of the first pending events.
func (s *scan) take(n int) batch {
	b := batch{events: n + s.unreadable, unreadable: s.unreadable}
	s.unreadable = 0
	for from := 0; from < n; {
		first, until := s.pending[from], from+1
		for until < n && s.pending[until].AggregateID == first.AggregateID {
			until++
		}
		b.histories = append(b.histories, history{aggregate: aggregate{id: first.AggregateID, raw: first.RawAggregateID}, events: s.pending[from:until:until]})
		from = until
	}
	if n > 0 {
		b.end = eventstore.After(s.pending[n-1].RawAggregateID)
	}
	s.pending = slices.Clone(s.pending[n:])
	return b
}

// page reads the next page of events.
func (s *scan) page(ctx context.Context) error {
	documents, err := mongox.Within(ctx, readTimeout, s.cursor.Next)
	if errors.Is(err, eventstore.ErrEnd) {
		s.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	page := s.readable(documents)
	s.unreadable += len(documents) - len(page)
	s.pending = append(s.pending, page...)
	return nil
}

// readable reads the events in documents. Those that break the contract are left out: they cannot
// be projected.
func (w *Workers) readable(documents []bson.Raw) []*event.Event {
	events := make([]event.Event, 0, len(documents))
	page := make([]*event.Event, 0, len(documents))
	for _, document := range documents {
		ev, err := w.Events.Read(document)
		if err != nil {
			w.Logger.Debug().Err(err).Str("aggregateId", ev.AggregateID).Int64("eventId", ev.EventID).Msg("event breaks the contract; left out of the fold")
			continue
		}
		events = append(events, ev)
		page = append(page, &events[len(events)-1])
	}
	return page
}

// readFrom passes the aggregate's events from this id on to each, in pages.
func (w *Workers) readFrom(ctx context.Context, a *aggregate, from int64, since bson.Timestamp, each func([]*event.Event)) (err error) {
	a.unreadable = 0
	if a.raw.Type == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("read the events of %s: %w", a.id, err)
		}
	}()
	s := &scan{Workers: w, until: eventstore.After(a.raw), since: since}
	defer s.close(ctx)
	if err := s.open(ctx, eventstore.At(a.raw, from)); err != nil {
		return err
	}
	for !s.ended {
		if err := s.page(ctx); err != nil {
			return err
		}
		a.read += len(s.pending) + s.unreadable
		a.unreadable += s.unreadable
		if len(s.pending) > 0 {
			each(s.pending)
		}
		s.pending, s.unreadable = nil, 0
	}
	return nil
}
