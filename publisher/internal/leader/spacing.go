package leader

import (
	"math/rand/v2"
	"time"
)

// spacing is the backoff between terms of work that keeps failing. Its shortest wait is
// longer than the longest pause between two attempts of a candidate (2.2 PollPeriod), so
// that another process takes the lock first.
type spacing struct {
	shortest, longest, step time.Duration
}

func newSpacing(retryPeriod time.Duration) *spacing {
	return &spacing{shortest: 3 * retryPeriod, longest: 30 * retryPeriod}
}

// next is the wait after a term of the given duration. It doubles, within the bounds and
// with a random extension of up to half. It starts again after a term that lasted longer
// than the longest wait.
func (s *spacing) next(lasted time.Duration) time.Duration {
	if lasted > s.longest {
		s.step = 0
	}
	s.step = min(max(2*s.step, s.shortest), s.longest)
	return s.step + rand.N(s.step/2+1)
}
