package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

const (
	// batchSize bounds the documents of a reply, which 16 MiB bound anyway.
	batchSize = 4096
	// pageDocuments and pageBytes bound a page.
	pageDocuments = 512
	pageBytes     = 256 << 10
)

// Collection is the [Source] on a real collection.
type Collection struct {
	events               *mongo.Collection
	aggregateID, eventID string
	// collated says that the collection has a collation other than the simple one.
	collated atomic.Bool
}

var _ Source = (*Collection)(nil)

// NewCollection makes the source of the events collection, whose documents have
// their keys in these fields. It reads from the primary and what a majority holds,
// whatever the client's own settings are.
func NewCollection(events *mongo.Collection, aggregateID, eventID string) *Collection {
	return &Collection{
		events: events.Clone(options.Collection().
			SetReadConcern(readconcern.Majority()).
			SetReadPreference(readpref.Primary())),
		aggregateID: aggregateID,
		eventID:     eventID,
	}
}

// OperationTime asks for one document with majority read concern. The operation
// time of that reply is the majority commit point, where that of a ping would be
// what the primary alone has applied.
func (c *Collection) OperationTime(ctx context.Context) (bson.Timestamp, error) {
	session, err := c.events.Database().Client().StartSession()
	if err != nil {
		return bson.Timestamp{}, fmt.Errorf("start session: %w", err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	err = c.events.FindOne(mongo.NewSessionContext(ctx, session), bson.D{},
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return bson.Timestamp{}, fmt.Errorf("read operation time: %w", err)
	}
	at := session.OperationTime()
	if at == nil || at.IsZero() {
		return bson.Timestamp{}, fmt.Errorf("%w: the server gives no operation time; it must be a replica set", ErrRefused)
	}
	return *at, nil
}

// Open begins a query.
func (c *Collection) Open(ctx context.Context, from, until Position, since bson.Timestamp) (Cursor, error) {
	index, exists, err := c.index(ctx)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, nil
	}
	session, err := c.events.Database().Client().StartSession()
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	if err := session.AdvanceOperationTime(&since); err != nil {
		session.EndSession(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("advance session: %w", err)
	}
	opts := options.Find().SetSort(c.keys()).SetHint(index).SetBatchSize(batchSize)
	if !from.IsZero() {
		opts.SetMin(c.bound(from))
	}
	if !until.IsZero() {
		opts.SetMax(c.bound(until))
	}
	cursor, err := c.events.Find(mongo.NewSessionContext(ctx, session), bson.D{}, opts)
	if err != nil {
		session.EndSession(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("scan %s.%s: %w", c.events.Database().Name(), c.events.Name(), err)
	}
	return &driverCursor{cursor: cursor, session: session}, nil
}

// Position is the place of a document in the scan. A document with an array in a
// key field has none: it stands in the index once for each element.
func (c *Collection) Position(document bson.Raw) (Position, bool) {
	p := Position{AggregateID: document.Lookup(c.aggregateID), EventID: document.Lookup(c.eventID)}
	for _, v := range []bson.RawValue{p.AggregateID, p.EventID} {
		if v.Type == bson.TypeArray || v.Type == bson.TypeUndefined {
			return Position{}, false
		}
	}
	return p, true
}

func (c *Collection) keys() bson.D {
	return bson.D{{Key: c.aggregateID, Value: 1}, {Key: c.eventID, Value: 1}}
}

func (c *Collection) bound(p Position) bson.D {
	return bson.D{
		{Key: c.aggregateID, Value: valueOrNull(p.AggregateID)},
		{Key: c.eventID, Value: valueOrNull(p.EventID)},
	}
}

func valueOrNull(v bson.RawValue) any {
	if v.Type == 0 {
		return nil
	}
	return v
}

// driverCursor is the driver's cursor in pages.
type driverCursor struct {
	cursor  *mongo.Cursor
	session *mongo.Session
}

// Next gives what is left of the driver's batch, up to the bounds of a page, and
// asks the server only where nothing is left.
func (d *driverCursor) Next(ctx context.Context) ([]bson.Raw, error) {
	var page []bson.Raw
	for size := 0; d.cursor.Next(ctx); {
		page = append(page, bson.Raw(bytes.Clone(d.cursor.Current)))
		size += len(d.cursor.Current)
		if d.cursor.RemainingBatchLength() == 0 || size >= pageBytes || len(page) >= pageDocuments {
			return page, nil
		}
	}
	if err := d.cursor.Err(); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return nil, ErrEnd
}

// Close ends the server's cursor and the session.
func (d *driverCursor) Close(ctx context.Context) error {
	defer d.session.EndSession(ctx)
	return d.cursor.Close(ctx)
}
