package model

// FirstGeneration is the first generation of a projection. Its documents, watermarks and
// markers do not contain the number.
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
}

// Later returns the unit's generation, or 0 for the first one, as it is stored: data of
// the first generation do not contain the number.
func (u *Unit) Later() int64 {
	if u.Generation <= FirstGeneration {
		return 0
	}
	return u.Generation
}
