package scan

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// ErrRefused says that the server does not allow the scan. The text has the remedy.
var ErrRefused = errors.New("scan of the event store is refused")

// Source is the event store, as far as scans need it: an [eventstore.Reader]. Only one
// goroutine may use it.
type Source interface {
	// OperationTime gives a cluster time up to which a scan that begins now sees
	// everything.
	OperationTime(ctx context.Context) (bson.Timestamp, error)
	// Open begins to read the events from ≤ position < until; see [eventstore.Reader.Open].
	Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error)
	// Compare orders two positions as the index does. known is false if it cannot tell.
	Compare(a, b eventstore.Position) (order int, known bool)
	// Strangers finds the events whose aggregate's id prints like that of an older one.
	Strangers(ctx context.Context, documents []bson.Raw) ([]error, error)
	// Position is the place of a document in the scan, if it has exactly one.
	Position(document bson.Raw) (p eventstore.Position, ok bool)
}

var _ Source = (*eventstore.Reader)(nil)
