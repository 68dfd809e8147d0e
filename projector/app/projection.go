package app

import (
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Projection is a projection, compiled and checked.
type Projection = projection.Projection

// Declaration describes a projection in Go.
type Declaration = projection.Declaration

// Func is a projection in Go. It returns the state after an event, given the state before. The
// event is read-only.
type Func = projection.Func

// State is a read model document as a projection sees it: without the fields that
// the projector adds; nil if there is none.
type State = projection.State

// NewProjection makes a projection from a Go function.
func NewProjection(d Declaration) (*Projection, error) { return projection.New(d) }

// Typed makes a [Func] from a function on a struct. It uses the driver's codecs, so it is
// more convenient and slower. state is nil if there is no document. A nil result deletes
// the document. T must hold no maps, because their order is random.
func Typed[T any](apply func(state *T, ev *event.Event) (*T, error)) Func {
	return projection.Typed(apply)
}
