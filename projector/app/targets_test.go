package app

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// version makes a projection in Go with this version as its definition.
func version(t *testing.T, name, version string) *Projection {
	t.Helper()
	p, err := NewProjection(Declaration{
		Name: name, Collection: name, Version: version,
		Apply: func(state State, _ *event.Event) (State, error) { return state, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A process serves the versions that its code has, and leaves other versions to other
// processes.
func TestProcessServesOnlyTheVersionsInItsCode(t *testing.T) {
	t.Parallel()
	first, second := version(t, "accounts", "1"), version(t, "accounts", "2")
	old := newTargets(nil, nil, nil, operate.NewCompiler([]*Projection{first}), false)
	if p, err := old.compiler.Compile(catalog.Declare(first)[0].Definition); p != first || err != nil {
		t.Errorf("its own: %v, %v", p, err)
	}
	if err := old.Able(catalog.Target{Projection: "accounts", Generation: 2, Definition: catalog.Declare(second)[0].Definition}); err == nil {
		t.Error("Able accepted a definition whose code this pod lacks")
	}
	if first.Hash() == second.Hash() || version(t, "accounts", "1").Hash() != first.Hash() {
		t.Error("definitions with different versions have one hash, or those with one version differ")
	}
}
