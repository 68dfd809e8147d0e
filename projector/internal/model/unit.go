package model

// FirstGeneration is the least number of a generation.
const FirstGeneration int64 = 1

// Unit is one aggregate in one generation of a projection. It has a watermark and at most
// one read model document, and it can be parked. Units are compared with ==, so a caller
// must use either 0 or 1 for the first generation, and not both.
type Unit struct {
	Projection string
	// Generation counts the definitions of the projection, from 1. The zero value means
	// the first generation.
	Generation int64
	// Collection holds the documents of this generation.
	Collection  string
	AggregateID string
	// Deletes is set if the projection may delete documents. Documents are then created
	// in a way that cannot restore a deleted one.
	Deletes bool
	// Parts is set if the projection is a view. The unit has a part, which is kept in its side
	// watermark, and the documents of Collection are made of many parts.
	Parts bool
	// FromZero is set if the first event of each aggregate has the id 0 instead of 1.
	FromZero bool
}

// FirstEvent returns the id of the aggregate's first event.
func (u *Unit) FirstEvent() int64 {
	if u.FromZero {
		return 0
	}
	return 1
}

// NoEvent returns the watermark of a unit without events: the id before the first event. It also
// stands for an event that does not exist, such as the one at which a unit is parked.
func (u *Unit) NoEvent() int64 { return u.FirstEvent() - 1 }

// Number returns the number of the unit's generation, as documents, watermarks and markers
// have it.
func (u *Unit) Number() int64 { return max(u.Generation, FirstGeneration) }
