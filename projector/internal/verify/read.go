package verify

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// mergePage is the largest number of events that are passed on at once.
const mergePage = 500

// readFrom passes the aggregate's events with ids in [from, to] to each, in parts. An
// event that breaks the contract is omitted, because it cannot be projected. Histories
// whose aggregate ids differ only in type are merged into one.
func (w *Worker) readFrom(ctx context.Context, a *aggregate, from, to int64, each func([]*event.Event)) error {
	if from > to {
		return nil
	}
	var all []*reading
	defer func() {
		for _, r := range all {
			r.close(ctx)
		}
	}()
	for _, raw := range a.raw {
		r, err := w.read(ctx, raw, from, &a.read)
		if err != nil {
			return fmt.Errorf("read the events of %s: %w", a.id, err)
		}
		all = append(all, r)
	}
	var page []*event.Event
	for {
		var first *reading
		for _, r := range all {
			ev, err := r.peek(ctx)
			if err != nil {
				return fmt.Errorf("read the events of %s: %w", a.id, err)
			}
			if ev != nil && ev.EventID <= to && (first == nil || ev.EventID < first.page[0].EventID) {
				first = r
			}
		}
		if first == nil || len(page) == mergePage {
			if len(page) > 0 {
				each(page)
			}
			page = nil
		}
		if first == nil {
			return nil
		}
		page = append(page, first.page[0])
		first.page = first.page[1:]
	}
}

// reading reads one history.
type reading struct {
	events Events
	// count counts the documents that were read.
	count *int
	// cursor is nil after the end.
	cursor eventstore.Cursor
	page   []*event.Event
}

// read starts reading a history at an event id, and counts the documents.
func (w *Worker) read(ctx context.Context, raw bson.RawValue, from int64, count *int) (*reading, error) {
	t, id, err := bson.MarshalValue(from)
	if err != nil {
		return nil, fmt.Errorf("encode an event id: %w", err)
	}
	first := eventstore.Position{AggregateID: raw, EventID: bson.RawValue{Type: t, Value: id}}
	cursor, err := w.options.Events.Open(ctx, first, eventstore.After(raw), bson.Timestamp{})
	return &reading{events: w.options.Events, count: count, cursor: cursor}, err
}

// peek returns the next event without taking it; nil after the last.
func (r *reading) peek(ctx context.Context) (*event.Event, error) {
	for len(r.page) == 0 {
		if r.cursor == nil {
			return nil, nil
		}
		documents, err := r.cursor.Next(ctx)
		if errors.Is(err, eventstore.ErrEnd) {
			r.close(ctx)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		*r.count += len(documents)
		for _, document := range documents {
			if ev, err := r.events.Read(document); err == nil {
				r.page = append(r.page, &ev)
			}
		}
	}
	return r.page[0], nil
}

func (r *reading) close(ctx context.Context) {
	if r.cursor != nil {
		_ = mongox.CloseCursor(ctx, r.cursor)
		r.cursor = nil
	}
}
