package project

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// State is a read model document as a projection sees it: its own fields without
// the engine's (_id, lastEventId, lastUpdatedAt). nil means that there is no
// document; an empty document is not nil.
type State = bson.Raw

// Func is a projection in Go: the state after ev, given the state before. It is
// pure: the same arguments give the same result, whenever and wherever, and it
// changes neither of them. It may return state itself (nothing changed), a new
// document, or nil (no document, which only a projection that declares Deletes
// may). The result may share memory with both arguments. An error parks the
// aggregate in this projection, and so does a panic.
type Func func(state State, ev *event.Event) (State, error)

// Declaration describes a projection in Go.
type Declaration struct {
	// Name names the projection in its watermarks, metrics and parked list. It is
	// unique and never changes.
	Name string
	// Collection holds its read models. No two projections share one.
	Collection string
	// AggregateType restricts it to aggregates of one type; empty means all.
	AggregateType string
	// Deletes says that Apply may return nil for a state that was not nil.
	Deletes bool
	// Apply is the projection itself.
	Apply Func
}

// Projection is one projection, compiled and checked: immutable and safe for
// concurrent use. Make it with [New] or [Load].
type Projection struct {
	name          string
	collection    string
	aggregateType string
	deletes       bool
}

// New makes a projection of a Go function.
func New(d Declaration) (*Projection, error) { panic("pending") }

// Load reads the projections of a YAML file, or of every *.yaml and *.yml file of
// a folder in the order of their names, and compiles them. Whatever is wrong
// with any of them is in the error, a [*LoadError].
func Load(path string) ([]*Projection, error) { panic("pending") }

// Name is what names the projection everywhere.
func (p *Projection) Name() string { return p.name }

// Collection holds its read models.
func (p *Projection) Collection() string { return p.collection }

// AggregateType is the only type that concerns the projection; empty means all.
func (p *Projection) AggregateType() string { return p.aggregateType }

// Deletes says whether the projection ever deletes a document.
func (p *Projection) Deletes() bool { return p.deletes }
