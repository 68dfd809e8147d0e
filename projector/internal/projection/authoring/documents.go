package authoring

import (
	"maps"
	"slices"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// DocumentChange is what an event changes in a document of a view, as far as the part of its
// aggregate contributes to it.
type DocumentChange struct {
	Key  string       `json:"key"`
	What Contributing `json:"what"`
	// Totals are the totals to which the part adds another value, and the fields that have other
	// elements of it.
	Totals []FieldChange `json:"totals,omitempty"`
}

// Contributing says how a document changes because of a part.
type Contributing string

// The changes.
const (
	// Joined: the part contributes to the document, and did not before.
	Joined Contributing = "gets the part"
	// Left: the part does not contribute to the document any more.
	Left Contributing = "loses the part"
	// Changed: the part adds other values to totals, or other elements.
	Changed Contributing = "counts the part differently"
)

// Documents lists the documents of a view that change with a part, in the order of their keys.
// A document that has the part in it also has its changed fields.
func Documents(before, after projection.State) (changes []DocumentChange) {
	was, is := fold.Contributions(before), fold.Contributions(after)
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		c := DocumentChange{Key: key, What: Changed}
		old, had := was[key]
		next, has := is[key]
		switch {
		case !had:
			c.What = Joined
		case !has:
			c.What = Left
		}
		c.Totals, _ = Changes(old, next)
		if had != has || len(c.Totals) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}
