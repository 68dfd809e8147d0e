package eventstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

var (
	// ErrEnd says that a cursor has reached the end of its range.
	ErrEnd = errors.New("all events of the range have been read")
	// ErrIndex says that the event store lacks the index of ranges; the text says how to
	// create it.
	ErrIndex = errors.New("event store lacks the index that a scan needs")
	// ErrNotFound says that the event store does not have an event.
	ErrNotFound = errors.New("event is not in the event store")
	// ErrNoOperationTime says that the server is not part of a replica set.
	ErrNoOperationTime = errors.New("the server gives no operation time; it must be a replica set")
)

// Reader reads the events collection. It is safe for concurrent use; its cursors are
// not.
type Reader struct {
	events *mongo.Collection
	fields event.Fields
	reader *event.Reader
	logger zerolog.Logger
	// collated says that the collection has a collation other than the simple one.
	collated atomic.Bool
}

// NewReader makes a reader of the events collection with the given field names.
func NewReader(events *mongo.Collection, fields event.Fields, logger zerolog.Logger) *Reader {
	return &Reader{
		events: events,
		fields: fields,
		reader: event.NewReader(fields),
		logger: logger,
	}
}

// Read reads an event of the store in the form that it has on the topic
// ([event.Canonical]). The event aliases document unless its form differs. A document that
// breaks the contract is an [*event.ContractError], and the event then has the keys that
// could be read. So is a document whose
// aggregate's id has another type than the oldest event's; see [Reader.LearnIDs].
func (r *Reader) Read(document bson.Raw) (event.Event, error) {
	canonical, err := event.Canonical(document)
	if err != nil {
		return event.Event{Document: document}, err
	}
	return r.reader.Read(canonical)
}

// OperationTime gives a cluster time up to which a read that begins now sees everything. It
// reads one document with majority read concern, because the operation time of such a reply
// is the majority commit point. The operation time of a ping would be that of the primary
// alone.
func (r *Reader) OperationTime(ctx context.Context) (bson.Timestamp, error) {
	session, err := r.events.Database().Client().StartSession()
	if err != nil {
		return bson.Timestamp{}, fmt.Errorf("start session: %w", err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	err = r.events.FindOne(mongo.NewSessionContext(ctx, session), bson.D{},
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return bson.Timestamp{}, fmt.Errorf("read operation time: %w", err)
	}
	at := session.OperationTime()
	if at == nil || at.IsZero() {
		return bson.Timestamp{}, ErrNoOperationTime
	}
	return *at, nil
}

// each calls visit with every document that a query finds, until visit returns false. The bytes
// of a document are valid only during its visit.
func (r *Reader) each(ctx context.Context, filter bson.D, opts *options.FindOptionsBuilder, visit func(bson.Raw) bool) error {
	cursor, err := r.events.Find(ctx, filter, opts)
	if err != nil {
		return err
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		if !visit(cursor.Current) {
			return nil
		}
	}
	return cursor.Err()
}

// name is the collection's name, for errors.
func (r *Reader) name() string { return r.events.Database().Name() + "." + r.events.Name() }
