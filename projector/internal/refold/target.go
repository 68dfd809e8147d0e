package refold

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Targets are the generations that this process serves.
type Targets interface {
	// Target gives a generation of a projection. It fails with [ErrUnknownTarget] if this
	// process does not serve that.
	Target(projection string, generation int64) (Target, error)
}

// Target is a generation of a projection. It is safe for concurrent use.
type Target interface {
	// Unit is an aggregate in this generation.
	Unit(aggregateID string) model.Unit
	// Concerns reports whether the event is of the projection's aggregate type.
	Concerns(ev *event.Event) bool
	// Begin starts a fold without events.
	Begin() Fold
}

// Fold folds the history of one aggregate. Only one goroutine may use it.
type Fold interface {
	// Add folds the next events, and reports whether all are folded. It stops at the first
	// event that fails. It keeps no event.
	Add(events []*event.Event) bool
	// Last is the last event that was folded; 0 if none was.
	Last() int64
	// Size is the size of the read model as of Last, in bytes.
	Size() int
	// Write is the guarded write that creates the read model as of Last; false if nothing
	// was folded.
	Write(unit model.Unit) (model.Write, bool)
}

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

// Parking is the list of parked units.
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
