package history

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Store reads watermarks and writes read models; see [model.Write]. An error of a whole
// call is transient.
type Store interface {
	// Watermarks gives the state of each unit without its document.
	Watermarks(ctx context.Context, units []model.Unit) ([]model.State, error)
	Write(ctx context.Context, writes []model.Write) ([]model.Written, error)
	// RemoveForeign deletes exactly the document of an older generation that was found under
	// the unit's aggregate id, and reports whether it was still there.
	RemoveForeign(ctx context.Context, unit model.Unit, foreign model.Foreign) (bool, error)
}

// Parking is the list of parked units: it knows which are parked, and parks others.
type Parking interface {
	// Parked gives the position of each unit.
	Parked(ctx context.Context, units []model.Unit) ([]model.Position, error)
	// Park parks units durably.
	Park(ctx context.Context, markers []model.Marker) error
}

// Source is the event store: an [eventstore.Reader].
type Source interface {
	Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error)
	Heads(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.HeadCursor, error)
	Read(document bson.Raw) (event.Event, error)
	Split(ctx context.Context, n int) ([]eventstore.Position, error)
	Count(ctx context.Context) (int64, error)
	OperationTime(ctx context.Context) (bson.Timestamp, error)
}

var _ Source = (*eventstore.Reader)(nil)
