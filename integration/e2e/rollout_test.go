package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// rollOut replaces the projectors one by one by projectors with other projections, like an
// upgrade.
func (s *scenario) rollOut(projections []byte, projectors int) {
	s.t.Helper()
	if err := s.SetProjections(projections); err != nil {
		s.t.Fatal(err)
	}
	for n := range projectors {
		for _, process := range s.Running() {
			if process.Name == fmt.Sprintf("projector-%d", n) {
				s.stopped(process)
			}
		}
		s.startProjector(n)
		s.ready()
	}
}

// awaitLive waits until each projection has a live generation with at least that number,
// and none that is being built.
func (s *scenario) awaitLive(generations map[string]int64) {
	s.t.Helper()
	var last []harness.ProjectionState
	deadline := time.Now().Add(settleTimeout())
	for {
		var err error
		if last, err = s.Projections(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		live := 0
		for _, p := range last {
			if p.State == "failed" {
				s.t.Fatalf("the rebuild of %s has failed: %s", p.Name, p.Building.Reason)
			}
			if want, asked := generations[p.Name]; asked && p.Building == nil && p.LiveGeneration() >= want {
				live++
			}
		}
		if live == len(generations) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not live within %s: %s", settleTimeout(), describe(last))
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-s.t.Context().Done():
			s.t.Fatal(s.t.Context().Err())
		}
	}
}

func describe(projections []harness.ProjectionState) string {
	var lines []string
	for _, p := range projections {
		line := fmt.Sprintf("%s is %s, live generation %d", p.Name, p.State, p.LiveGeneration())
		if p.Building != nil {
			line += fmt.Sprintf(", building %d: %s", p.Building.Generation, p.Building.Reason)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// projectors returns the running projectors.
func (s *scenario) projectors() []*harness.Process {
	return slices.DeleteFunc(s.Running(), func(p *harness.Process) bool { return !strings.HasPrefix(p.Name, "projector-") })
}
