package simulation

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A plan fails if it has every fault of a set: exactly that set remains.
func TestShrinkKeepsTheFaultsThatMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "faults")
		matter := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, min(n, 4), rapid.ID).Draw(t, "matter")
		p := &Plan{}
		for i := range n {
			p.Faults = append(p.Faults, Fault{Process: i})
		}
		shrunk := Shrink(p, func(p *Plan) bool {
			return !slices.ContainsFunc(matter, func(i int) bool {
				return !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Process == i })
			})
		})
		if len(shrunk.Faults) != len(matter) {
			t.Fatalf("%d faults remain, and %d matter", len(shrunk.Faults), len(matter))
		}
	})
}
