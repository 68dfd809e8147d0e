package leader

import (
	"math/rand/v2"
	"time"
)

// spacing spaces the terms of work that keeps failing. Its shortest wait is longer
// than the longest pause between two attempts of a candidate (2.2 PollPeriod), so
// that a healthy one takes the lock before this process asks for it again.
type spacing struct {
	shortest, longest, step time.Duration
}

func newSpacing(retryPeriod time.Duration) *spacing {
	return &spacing{shortest: 3 * retryPeriod, longest: 30 * retryPeriod}
}

// next is how long to wait after a term that lasted so long.
// It doubles, within the bounds and with up to half as much again at random, and
// begins anew after a term that outlasted it.
func (s *spacing) next(lasted time.Duration) time.Duration {
	if lasted > s.longest {
		s.step = 0
	}
	s.step = min(max(2*s.step, s.shortest), s.longest)
	return s.step + rand.N(s.step/2+1)
}
