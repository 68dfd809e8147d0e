package model

// FirstGeneration is the generation that a projection begins with. Documents,
// watermarks and markers of it do not name their generation.
const FirstGeneration int64 = 1

// Unit is one aggregate in one generation of a projection: it has a watermark and a
// read model document, and it can be parked. Units are compared with ==, so those who
// make them either always set the generation of the first one or never do.
type Unit struct {
	Projection string
	// Generation counts the definitions of the projection, from 1. The zero value means
	// the first generation.
	Generation int64
	// Collection holds the documents of this generation.
	Collection  string
	AggregateID string
	// Deletes is whether the projection may delete documents. Its documents are then
	// created in a way that does not bring a deleted one back.
	Deletes bool
}

// Later is the generation of a unit that is not of the first generation, and 0 for the
// first one: the data name their generation only if it is not the first.
func (u *Unit) Later() int64 {
	if u.Generation <= FirstGeneration {
		return 0
	}
	return u.Generation
}
