package model

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// State is what is stored for a unit.
type State struct {
	// Document is the whole read model document, the engine's fields included; nil if
	// there is none.
	Document bson.Raw
	// Watermark is the last event in the read model; 0 if there is none yet. A unit
	// without a document may have a watermark.
	Watermark int64
	// UpdatedAt is when the document was last changed, as it says itself, in milliseconds
	// since 1970; 0 if there is no document, or it does not say.
	UpdatedAt int64
	// Foreign is set if there is no document of the unit's generation, but one of an older
	// generation under the aggregate's id; nil otherwise. Document is nil then, and the
	// watermark is that of the unit's own generation.
	Foreign *Foreign
	// Err says that what is stored for the unit can never be loaded, such as a document
	// without a watermark. The unit is parked.
	Err error
	// Unavailable says that this unit could not be loaded now. The others could. It is
	// [ErrSuperseded] if the document is of a newer generation.
	Unavailable error
	// Deferred says that this unit was not loaded because memory has no room for its
	// document now. Ask again when the others are released.
	Deferred bool
}

// Foreign is a document that a writer of an older generation made, after a newer one had
// taken over the collection. It is no read model of the newer generation.
type Foreign struct {
	// Generation, Watermark and UpdatedAt are what the document says of itself.
	Generation, Watermark, UpdatedAt int64
}

// ErrSuperseded says that another generation of the projection has taken over: a unit
// of this one must not be written any more. Nothing is wrong with its events. Offer them
// again: the process learns of the newer generation soon.
var ErrSuperseded = errors.New("the generation of the projection is no longer the one that is written")
