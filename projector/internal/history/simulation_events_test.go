package history_test

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// This file makes the simulation an event store.

func (w *simulation) all(from, until eventstore.Position) []*event.Event {
	var all []*event.Event
	for _, id := range w.ids() {
		for _, ev := range w.store[id] {
			if (from.IsZero() || !before(ev, from)) && (until.IsZero() || before(ev, until)) {
				all = append(all, ev)
			}
		}
	}
	return all
}

// before reports whether an event stands before a position.
func before(ev *event.Event, p eventstore.Position) bool {
	at := p.AggregateID.StringValue()
	if ev.AggregateID != at {
		return ev.AggregateID < at
	}
	n, isNumber := p.EventID.AsInt64OK()
	return p.EventID.Type == bson.TypeMaxKey || isNumber && ev.EventID < n
}

// memoryCursor reads pages of a few events. Each page shows the store at the time of the
// read.
type memoryCursor struct {
	w           *simulation
	from, until eventstore.Position
	last        *event.Event
}

func (c *memoryCursor) Next(context.Context) ([]bson.Raw, error) {
	c.w.step()
	page := max(3, c.w.page)
	var found []bson.Raw
	for _, ev := range c.w.all(c.from, c.until) {
		if c.last != nil && (ev.AggregateID < c.last.AggregateID || ev.AggregateID == c.last.AggregateID && ev.EventID <= c.last.EventID) {
			continue
		}
		if len(found) == page {
			break
		}
		found, c.last = append(found, ev.Document), ev
	}
	if len(found) == 0 {
		return nil, eventstore.ErrEnd
	}
	return found, nil
}

func (c *memoryCursor) Close(context.Context) error { return nil }

func (w *simulation) Open(_ context.Context, from, until eventstore.Position, _ bson.Timestamp) (eventstore.Cursor, error) {
	w.step()
	if len(w.store) == 0 {
		return nil, nil
	}
	return &memoryCursor{w: w, from: from, until: until}, nil
}

func (w *simulation) Split(_ context.Context, n int) ([]eventstore.Position, error) {
	var split []eventstore.Position
	ids := w.ids()
	for i := 1; i < n && i < len(ids); i++ {
		p := eventstore.Before(testkit.Value(ids[i*len(ids)/n]))
		if len(split) == 0 || !split[len(split)-1].Equal(p) {
			split = append(split, p)
		}
	}
	return split, nil
}

func (w *simulation) Count(context.Context) (int64, error) {
	return int64(len(w.all(eventstore.Position{}, eventstore.Position{}))), nil
}

func (w *simulation) Read(document bson.Raw) (event.Event, error) {
	canonical, err := event.Canonical(document)
	if err != nil {
		return event.Event{}, err
	}
	return w.reader.Read(canonical)
}

func (w *simulation) Known(_ context.Context, ids []string) (map[string]bson.RawValue, error) {
	w.step()
	known := map[string]bson.RawValue{}
	for _, id := range ids {
		if events := w.store[id]; len(events) > 0 {
			known[id] = events[0].RawAggregateID
		}
	}
	return known, nil
}
