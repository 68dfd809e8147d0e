package checkpoint

import (
	"strings"
	"testing"
)

// If the age of the checkpoint were measured by the wall clock, a clock that is set would
// raise an alert, or hide one.
func TestAgeKeepsTheMonotonicClock(t *testing.T) {
	t.Parallel()
	s := NewSaver(&Claim{store: NewStore(nil, "events", Options{})}, NewWatermark(), SaverConfig{})
	if moved := s.moved.Load().String(); !strings.Contains(moved, " m=") {
		t.Errorf("%s has no monotonic reading", moved)
	}
}
