package operate

import (
	"errors"
	"fmt"
	"sync"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Compiler compiles the definitions of the catalog, each of them once. It is safe for concurrent use.
type Compiler struct {
	declared []*projection.Projection

	mu sync.Mutex
	// compiled has the projections of definitions, by hash.
	compiled map[string]*projection.Projection
}

// NewCompiler makes a compiler for a process that declares these projections. It has the code of
// those in Go.
func NewCompiler(declared []*projection.Projection) *Compiler {
	return &Compiler{declared: declared, compiled: map[string]*projection.Projection{}}
}

// errNoCode says that the code of a definition is only in other pods.
var errNoCode = errors.New("this process does not have the code of that definition")

// Compile returns the projection of a definition. If it is declared in YAML, it is compiled from
// the catalog's text even if this process declares the same, so that all pods run the same
// definition.
func (c *Compiler) Compile(d catalog.Definition) (*projection.Projection, error) {
	if d.InCode {
		for _, p := range c.declared {
			if p.Hash() == d.Hash {
				return p, nil
			}
		}
		return nil, fmt.Errorf("definition %s: %w", d.Hash, errNoCode)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.compiled[d.Hash]; p != nil {
		return p, nil
	}
	p, err := projection.Compile(d.Text)
	if err != nil {
		return nil, err
	}
	c.compiled[d.Hash] = p
	return p, nil
}
