package app

import "github.com/penstock-cdc/penstock/projector/internal/project"

// Projection is a projection, compiled and checked.
type Projection = project.Projection

// Declaration describes a projection in Go.
type Declaration = project.Declaration

// Func is a projection in Go: the state after an event, given the state before.
type Func = project.Func

// State is a read model document as a projection sees it: without the fields that
// the projector adds; nil where there is none.
type State = project.State

// NewProjection makes a projection of a Go function.
func NewProjection(d Declaration) (*Projection, error) { return project.New(d) }
