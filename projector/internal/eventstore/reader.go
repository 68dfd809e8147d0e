package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// ErrNotFound says that the event store does not have an event.
var ErrNotFound = errors.New("event is not in the event store")

// maxBytes is about how much is read at once.
const maxBytes = 16 << 20

// closeTimeout bounds the end of a cursor that has not been read to its end.
const closeTimeout = time.Second

// Collection is what a reader needs of a [*mongo.Collection]. Its reads must be of
// what a majority has.
type Collection interface {
	Find(ctx context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error)
}

// Reader reads events of the event store. It is safe for concurrent use.
type Reader struct {
	collection Collection
	fields     event.Fields
	events     *event.Reader
	logger     zerolog.Logger
}

// NewReader makes a reader of a collection whose documents name their fields so.
func NewReader(c Collection, fields event.Fields, logger zerolog.Logger) (*Reader, error) {
	events, err := event.NewReader(fields)
	if err != nil {
		return nil, err
	}
	return &Reader{collection: c, fields: fields, events: events, logger: logger}, nil
}

// Missing reads at most limit of the events from ≤ eventId ≤ to of the aggregate of
// ev, in order. None means that the store does not have the first of them, or that it
// breaks the contract, which is logged: it can no more be projected than one that
// is not there. Fewer than there are may also be as many as fit into memory.
func (r *Reader) Missing(ctx context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	cursor, err := r.collection.Find(ctx,
		bson.D{
			{Key: r.fields.AggregateID, Value: ev.RawAggregateID},
			{Key: r.fields.EventID, Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lte", Value: to}}},
		},
		options.Find().SetSort(bson.D{{Key: r.fields.EventID, Value: 1}}).SetLimit(int64(limit)))
	if err != nil {
		return nil, r.wrap(err, ev, from, to)
	}
	defer closeCursor(ctx, cursor)
	var events []*event.Event
	for size := 0; size < maxBytes && cursor.Next(ctx); {
		found, err := r.read(cursor.Current)
		if err != nil {
			r.logger.Error().Err(err).Str("aggregateId", ev.AggregateID).Int64("eventId", found.EventID).
				Msg("an event in the event store breaks the contract: its aggregate cannot go on")
			break
		}
		size += len(found.Document)
		events = append(events, &found)
	}
	if err := cursor.Err(); err != nil {
		return nil, r.wrap(err, ev, from, to)
	}
	return events, nil
}

// read gives an event the form that it has when it comes over the topic.
func (r *Reader) read(current bson.Raw) (event.Event, error) {
	document, err := event.Canonical(bytes.Clone(current))
	if err != nil {
		return event.Event{Document: document}, err
	}
	return r.events.Read(document)
}

// Whole reads the event with the keys of ev. It is [ErrNotFound] where the store
// does not have it.
func (r *Reader) Whole(ctx context.Context, ev *event.Event) (*event.Event, error) {
	events, err := r.Missing(ctx, ev, ev.EventID, ev.EventID, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("read event %d of aggregate %q: %w", ev.EventID, ev.AggregateID, ErrNotFound)
	}
	return events[0], nil
}

// closeCursor tells the server, within bounded time, that nobody reads on. What it is
// not told it finds out after ten minutes.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = cursor.Close(ctx)
}

func (r *Reader) wrap(err error, ev *event.Event, from, to int64) error {
	return fmt.Errorf("read events %d to %d of aggregate %q: %w", from, to, ev.AggregateID, err)
}
