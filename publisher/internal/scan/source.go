package scan

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// ErrEnd says that a cursor has given everything.
var ErrEnd = errors.New("scan has reached the end")

// ErrIndex says that the event store lacks the index of the scan; the text says
// how to create it.
var ErrIndex = errors.New("event store lacks the index that a scan needs")

// ErrRefused says that the server does not allow the scan. The text holds the
// remedy.
var ErrRefused = errors.New("scan of the event store is refused")

// Position is an event's place in the scan. The zero value is before all events.
type Position struct {
	// AggregateID and EventID are as the store has them. A value whose Type is 0 is
	// a missing field, which the index keeps as null.
	AggregateID, EventID bson.RawValue
}

// IsZero tells whether p is before all events.
func (p Position) IsZero() bool { return p.AggregateID.Type == 0 && p.EventID.Type == 0 }

// Source is the event store as the scanner needs it. One goroutine uses it.
type Source interface {
	// OperationTime is a cluster time up to which a scan that begins now sees
	// everything.
	OperationTime(ctx context.Context) (bson.Timestamp, error)
	// Open begins to read, from the event at from, it included, to the one at until, it
	// excluded, and in the order of the index; a zero until is the end. The reader sees
	// everything up to the cluster time since. It fails with [ErrIndex] where the index is
	// missing, and gives a nil cursor where the collection does not exist.
	Open(ctx context.Context, from, until Position, since bson.Timestamp) (Cursor, error)
	// Compare orders two positions as the index does. known is false if it cannot tell: the
	// collection has a collation of its own, or a position has a type that no valid key has.
	Compare(a, b Position) (order int, known bool)
	// Position is the place of a document in the scan, where it has exactly one.
	Position(document bson.Raw) (p Position, ok bool)
}

// Cursor reads the documents of one query. One goroutine uses it.
type Cursor interface {
	// Next gives the next documents, which belong to the receiver. It fails with
	// [ErrEnd] after the last.
	Next(ctx context.Context) ([]bson.Raw, error)
	// Close ends the server's cursor.
	Close(ctx context.Context) error
}
