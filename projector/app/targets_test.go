package app

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
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

// A live definition counts as replaced while this process declares another, or another is
// being built; aggregates that fail then wait for the new one. A definition that an
// operator has given up will never come, so nothing waits for it.
func TestLiveDefinitionCountsAsReplacedWhileAnotherIsDeclaredOrBuilt(t *testing.T) {
	t.Parallel()
	first, second := version(t, "accounts", "1"), version(t, "accounts", "2")
	live := generation.Target{Projection: "accounts", Generation: 1, Definition: generation.Declare(first)[0].Definition, Collection: "accounts"}
	building := generation.Target{Projection: "accounts", Generation: 2, Definition: generation.Declare(second)[0].Definition, Collection: "accounts.generation-2", Building: true}
	givenUp := live
	givenUp.GivenUp = second.Hash()
	other := building
	other.Projection = "items"
	for name, test := range map[string]struct {
		declares []*Projection
		live     generation.Target
		beside   []generation.Target
		want     bool
	}{
		"the same is declared":                      {declares: []*Projection{first}, live: live},
		"another is declared":                       {declares: []*Projection{second}, live: live, want: true},
		"another is built by other processes":       {declares: []*Projection{first}, live: live, beside: []generation.Target{building}, want: true},
		"another is built for another projection":   {declares: []*Projection{first}, live: live, beside: []generation.Target{other}},
		"another projection is declared":            {declares: []*Projection{version(t, "items", "2")}, live: live},
		"another is declared, and was given up":     {declares: []*Projection{second}, live: givenUp},
		"a third is declared, another was given up": {declares: []*Projection{version(t, "accounts", "3")}, live: givenUp, want: true},
		"the one that is built":                     {declares: []*Projection{first}, live: building, beside: []generation.Target{live}},
	} {
		if got := (&targets{declared: test.declares}).replaced(test.live, append(test.beside, test.live)); got != test.want {
			t.Errorf("%s: replaced is %t", name, got)
		}
	}
}

// A process serves the versions that its code has, and leaves other versions to other
// processes.
func TestProcessServesOnlyTheVersionsInItsCode(t *testing.T) {
	t.Parallel()
	first, second := version(t, "accounts", "1"), version(t, "accounts", "2")
	old := newTargets(nil, nil, nil, []*Projection{first})
	if p, err := old.projection(generation.Declare(first)[0].Definition); p != first || err != nil {
		t.Errorf("its own: %v, %v", p, err)
	}
	if err := old.Able(generation.Target{Projection: "accounts", Generation: 2, Definition: generation.Declare(second)[0].Definition}); err == nil {
		t.Error("Able accepted a definition whose code this pod lacks")
	}
	if first.Hash() == second.Hash() || version(t, "accounts", "1").Hash() != first.Hash() {
		t.Error("definitions with different versions have one hash, or those with one version differ")
	}
}
