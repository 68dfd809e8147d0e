package eventstore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// batchSize bounds the documents of a reply. 16 MiB bound it too.
	batchSize = 4096
	// pageDocuments and pageBytes bound a page.
	pageDocuments = 512
	pageBytes     = 256 << 10
	// codeNothingBetween is the server's error code for a range whose min is not before its
	// max.
	codeNothingBetween = 51175
)

// Cursor reads the documents of one range. Only one goroutine may use it. It is an
// interface so that tests can replace it.
type Cursor interface {
	// Next gives the next documents, which the caller may keep. It fails with [ErrEnd]
	// after the last.
	Next(ctx context.Context) ([]bson.Raw, error)
	// Close ends the server's cursor.
	Close(ctx context.Context) error
}

// Open reads events in the order of the index, from the position from (included) to the
// position until (excluded). A zero from is the beginning, a zero until the end. The cursor
// sees every event up to the cluster time since; zero means no such bound. Open fails with
// [ErrIndex] if the index is missing. The cursor is nil if the range is empty because the
// collection does not exist, or because until does not come after from.
func (r *Reader) Open(ctx context.Context, from, until Position, since bson.Timestamp) (Cursor, error) {
	found, err := r.find(ctx, from, until, since, nil)
	if found == nil || err != nil {
		return nil, err
	}
	return &driverCursor{found}, nil
}

// query is an open query on the index, in a session of its own.
type query struct {
	cursor  *mongo.Cursor
	session *mongo.Session
}

// Close ends the server's cursor and the session.
func (q *query) Close(ctx context.Context) error {
	defer q.session.EndSession(ctx)
	return q.cursor.Close(ctx)
}

// find opens a query; nil if the range is empty.
func (r *Reader) find(ctx context.Context, from, until Position, since bson.Timestamp, projection bson.D) (*query, error) {
	index, exists, err := r.index(ctx)
	if err != nil || !exists {
		return nil, err
	}
	if _, err := r.LearnIDs(ctx); err != nil {
		return nil, err
	}
	session, err := r.sessionSince(since)
	if err != nil {
		return nil, err
	}
	opts := options.Find().SetSort(r.keys()).SetHint(index).SetBatchSize(batchSize)
	if projection != nil {
		opts.SetProjection(projection)
	}
	if !from.IsZero() {
		opts.SetMin(r.bound(from))
	}
	if !until.IsZero() {
		opts.SetMax(r.bound(until))
	}
	cursor, err := r.events.Find(mongo.NewSessionContext(ctx, session), bson.D{}, opts)
	if err != nil {
		session.EndSession(context.WithoutCancel(ctx))
		if mongox.HasCode(err, codeNothingBetween) {
			return nil, nil
		}
		return nil, fmt.Errorf("scan %s: %w", r.name(), err)
	}
	return &query{cursor, session}, nil
}

// sessionSince starts a session whose reads see everything up to since.
func (r *Reader) sessionSince(since bson.Timestamp) (*mongo.Session, error) {
	session, err := r.events.Database().Client().StartSession()
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	if !since.IsZero() {
		if err := session.AdvanceOperationTime(&since); err != nil {
			session.EndSession(context.Background())
			return nil, fmt.Errorf("advance session: %w", err)
		}
	}
	return session, nil
}

// Position is the place of a document in the index. ok is false for a document with an
// array in a key field, because the index has such a document once for each element.
func (r *Reader) Position(document bson.Raw) (p Position, ok bool) {
	p = Position{AggregateID: document.Lookup(r.fields.AggregateID), EventID: document.Lookup(r.fields.EventID)}
	for _, v := range []bson.RawValue{p.AggregateID, p.EventID} {
		if v.Type == bson.TypeArray || v.Type == bson.TypeUndefined {
			return Position{}, false
		}
	}
	return p, true
}

func (r *Reader) keys() bson.D {
	return bson.D{{Key: r.fields.AggregateID, Value: 1}, {Key: r.fields.EventID, Value: 1}}
}

func (r *Reader) bound(p Position) bson.D {
	return bson.D{
		{Key: r.fields.AggregateID, Value: valueOrNull(p.AggregateID)},
		{Key: r.fields.EventID, Value: valueOrNull(p.EventID)},
	}
}

func valueOrNull(v bson.RawValue) any {
	if v.Type == 0 {
		return nil
	}
	return v
}

// driverCursor divides the driver's cursor into pages.
type driverCursor struct{ *query }

// Next gives the rest of the driver's batch, up to the bounds of a page. It asks the server
// only if the batch is used up.
func (d *driverCursor) Next(ctx context.Context) ([]bson.Raw, error) {
	var page []bson.Raw
	var slab mongox.Slab
	for size := 0; d.cursor.Next(ctx); {
		current, left := d.cursor.Current, d.cursor.RemainingBatchLength()
		if page == nil {
			page = make([]bson.Raw, 0, min(left+1, pageDocuments))
		}
		page = append(page, slab.Copy(current, left > 0))
		size += len(current)
		if left == 0 || size >= pageBytes || len(page) >= pageDocuments {
			return page, nil
		}
	}
	if err := d.cursor.Err(); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return nil, ErrEnd
}
