package simulation

import "slices"

// Shrink removes the second pipeline and faults from a plan as long as it still fails, and
// returns the smaller plan. fails runs a plan.
func Shrink(p *Plan, fails func(*Plan) bool) *Plan {
	if p.Beside != nil {
		alone := *p
		if alone.Beside = nil; fails(&alone) {
			return Shrink(&alone, fails)
		}
		both := *p
		both.Beside = Shrink(p.Beside, func(beside *Plan) bool {
			both := *p
			both.Beside = beside
			return fails(&both)
		})
		p = &both
	}
	// Halves first, then quarters, down to single faults.
	for size := (len(p.Faults) + 1) / 2; size > 0; {
		smaller := false
		for from := 0; from < len(p.Faults); {
			less := *p
			less.Faults = slices.Concat(p.Faults[:from], p.Faults[min(from+size, len(p.Faults)):])
			if fails(&less) {
				p, smaller = &less, true
				continue
			}
			from += size
		}
		if !smaller {
			size /= 2
		}
	}
	return p
}
