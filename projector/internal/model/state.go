package model

import (
	"errors"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// State is the stored state of a unit.
type State struct {
	// Document is the whole read model document, including the engine's fields; nil if
	// there is none.
	Document bson.Raw
	// Watermark is the last event in the read model; [Unit.NoEvent] if there is none yet. A unit
	// without a document may have a watermark.
	Watermark int64
	// UpdatedAt is the document's lastUpdatedAt in milliseconds since 1970; 0 if there is
	// no document or no such field.
	UpdatedAt int64
	// Foreign is set if the document with the aggregate's id is of an older generation
	// than the unit. Document is nil then, and Watermark is that of the unit's own
	// generation.
	Foreign *Foreign
	// Err is set if the stored document can never be loaded, for example because it has
	// no watermark. The unit is parked then.
	Err error
	// Unavailable is the error if this unit, unlike others, could not be loaded now. It
	// is [ErrSuperseded] if the document is of a newer generation.
	Unavailable error
	// Deferred is set if this unit was not loaded because its document would exceed the
	// memory bound. Load it again after the others are released.
	Deferred bool
}

// Erased is the watermark of an aggregate that was erased after its events were deleted: every
// message that is still under way is a duplicate, whatever its event id.
const Erased int64 = math.MaxInt64

// Foreign describes a document that a writer of an older generation created after a newer
// generation had taken over the collection. It is not a read model of the newer
// generation.
type Foreign struct {
	// Generation, Watermark and UpdatedAt are the document's own.
	Generation, Watermark, UpdatedAt int64
}

// ErrSuperseded is returned if a newer generation of the projection has taken over, so
// units of this one must no longer be written. Their events are not wrong. The caller
// must process them again later: the process soon reads of the newer generation in the
// catalog.
var ErrSuperseded = errors.New("another generation of the projection is written now")
