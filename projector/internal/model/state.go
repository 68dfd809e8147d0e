package model

import "go.mongodb.org/mongo-driver/v2/bson"

// State is what is stored for a unit.
type State struct {
	// Document is the whole read model document, the engine's fields included; nil if
	// there is none.
	Document bson.Raw
	// Watermark is the last event in the read model; 0 if there is none yet. A unit
	// without a document may have a watermark.
	Watermark int64
	// Err says that what is stored for the unit can never be loaded, such as a document
	// without a watermark. The unit is parked.
	Err error
	// Unavailable says that this unit could not be loaded now. The others could.
	Unavailable error
	// Deferred says that this unit was not loaded because memory has no room for its
	// document now. Ask again when the others are released.
	Deferred bool
}
