package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// Append adds a document to the event store, and returns the event that the projector
// reads from it. The fields have the default names of the event contract.
func (s *Stores) Append(document bson.Raw) (*event.Event, error) {
	canonical, err := event.Canonical(document)
	if err != nil {
		return nil, fmt.Errorf("append an event: %w", err)
	}
	ev, err := s.Read(canonical)
	if err != nil {
		return nil, fmt.Errorf("append an event: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, &ev)
	slices.SortStableFunc(s.events, func(a, b *event.Event) int {
		return cmp.Or(cmp.Compare(a.AggregateID, b.AggregateID), cmp.Compare(a.EventID, b.EventID))
	})
	return &ev, nil
}

// Missing returns at most limit events of the aggregate of ev with from ≤ eventId ≤ to,
// in order.
func (s *Stores) Missing(_ context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var found []*event.Event
	for _, e := range s.events {
		if e.AggregateID == ev.AggregateID && e.EventID >= from && e.EventID <= to && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

// Read reads a document of the event store.
func (s *Stores) Read(document bson.Raw) (event.Event, error) { return s.reader.Read(document) }

// Open starts reading all events, in the order of the event store's index. It ignores the
// range, because Split returns none.
func (s *Stores) Open(context.Context, eventstore.Position, eventstore.Position, bson.Timestamp) (eventstore.Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	documents := make([]bson.Raw, len(s.events))
	for i, ev := range s.events {
		documents[i] = ev.Document
	}
	return &cursor{rest: documents}, nil
}

// Split returns no boundaries: the whole store is one range.
func (*Stores) Split(context.Context, int) ([]eventstore.Position, error) { return nil, nil }

// Count returns the number of events.
func (s *Stores) Count(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.events)), nil
}

// OperationTime returns the zero time: every reader sees all events.
func (*Stores) OperationTime(context.Context) (bson.Timestamp, error) { return bson.Timestamp{}, nil }

// errNoHeads is the error of Heads: sweeps do not run on stores in memory.
var errNoHeads = errors.New("an event store in memory has no index of heads")

// Heads is not implemented, because a build does not need it.
func (*Stores) Heads(context.Context, eventstore.Position, eventstore.Position, bson.Timestamp) (eventstore.HeadCursor, error) {
	return nil, errNoHeads
}

// cursor returns the events page by page.
type cursor struct{ rest []bson.Raw }

// pageSize is small, so that even short histories are read in several pages.
const pageSize = 3

// Next returns the next page.
func (c *cursor) Next(context.Context) ([]bson.Raw, error) {
	if len(c.rest) == 0 {
		return nil, eventstore.ErrEnd
	}
	n := min(pageSize, len(c.rest))
	page := c.rest[:n]
	c.rest = c.rest[n:]
	return page, nil
}

// Close ends the cursor.
func (*cursor) Close(context.Context) error { return nil }
