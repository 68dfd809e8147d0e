package simulation

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A plan fails if one of its pipelines has every fault of a set: exactly that set remains.
func TestShrinkKeepsTheFaultsThatMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		beside := rapid.Bool().Draw(t, "beside")
		n := rapid.IntRange(1, 40).Draw(t, "faults")
		matter := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, min(n, 4), rapid.ID).Draw(t, "matter")
		p := &Plan{Beside: &Plan{}}
		for i := range n {
			p.Faults = append(p.Faults, Fault{Process: i})
			p.Beside.Faults = append(p.Beside.Faults, Fault{Process: i})
		}
		shrunk := Shrink(p, func(p *Plan) bool {
			if beside {
				p = p.Beside
			}
			return p != nil && !slices.ContainsFunc(matter, func(i int) bool {
				return !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Process == i })
			})
		})
		if beside {
			if len(shrunk.Faults) > 0 {
				t.Fatalf("%d faults remain in the pipeline that does not matter", len(shrunk.Faults))
			}
			shrunk = shrunk.Beside
		}
		if len(shrunk.Faults) != len(matter) {
			t.Fatalf("%d faults remain, and %d matter", len(shrunk.Faults), len(matter))
		}
	})
}
