package model

// The fields of a read model document that belong to the engine.
const (
	FieldID             = "_id"
	FieldLastEventID    = "lastEventId"
	FieldLastUpdatedAt  = "lastUpdatedAt"
	FieldLastGeneration = "lastGeneration"
)

// EngineOwned reports whether a top-level field belongs to the engine. No projection sees or
// writes it.
func EngineOwned(name string) bool {
	switch name {
	case FieldID, FieldLastEventID, FieldLastUpdatedAt, FieldLastGeneration:
		return true
	}
	return false
}
