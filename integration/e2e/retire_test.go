package e2e_test

import (
	"strings"
	"testing"
)

// TestDeclaredProjectionIsNotRetired checks that the command refuses to retire a projection that
// a running projector would build again.
func TestDeclaredProjectionIsNotRetired(t *testing.T) { scene(t, declaredProjectionIsNotRetired) }

func declaredProjectionIsNotRetired(t *testing.T) {
	t.Helper()
	s := newTallies(t, tally("tallies", "tallies", 1))
	s.start(1, 1)
	s.store(1)
	s.complete("tallies", 1)
	if _, said := s.projectorCommand(1, "projections", "retire", "tallies", "--yes"); !strings.Contains(said, "declares projection tallies") {
		t.Errorf("a declared projection is retired: %s", said)
	}
}
