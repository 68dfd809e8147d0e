package engine

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Store loads and writes read models. Load and Write give their results in the order of
// their arguments. An error of the whole call is transient. The units of a call belong to
// one projection.
type Store interface {
	// Load may defer units, but not all of them: it waits until it can load one.
	Load(ctx context.Context, units []model.Unit) ([]model.State, error)
	// Release says that the documents of a Load are no longer used. The engine calls it
	// once for each Load without an error, before the next Load.
	Release(loaded []model.State)
	Write(ctx context.Context, writes []model.Write) ([]model.Written, error)
}

// Parking is the list of parked units. Every call is one request for all of its units, if
// the list allows it.
type Parking interface {
	// Parked returns the position of each unit. The engine calls it only if necessary:
	// for units with a gap.
	Parked(ctx context.Context, units []model.Unit) ([]model.Position, error)
	// Park parks units durably. Parking a unit twice for the same reason at the same
	// event changes nothing.
	Park(ctx context.Context, parked []model.Marker) error
	// Advance records durably that the events of parked units up to their heads were
	// acknowledged without being applied. It fails if one of the units is not parked; its
	// events must not be acknowledged then.
	Advance(ctx context.Context, heads []model.Head) error
}

// Repairer reads events from the event store.
type Repairer interface {
	// Missing reads events from ≤ eventId ≤ to of the aggregate of ev, in order: at most
	// limit, possibly fewer than there are. An empty result means that the store has no
	// more of them, or that it cannot read the first of them.
	Missing(ctx context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error)
	// First reads the first readable event of the aggregate of ev; nil if there is none.
	First(ctx context.Context, ev *event.Event) (*event.Event, error)
}
