package drain

import "math"

// sizes foretells how large the next message bodies are, from the mean and the variance
// of those that came. Both follow the last few hundred messages, so one large message
// in a thousand raises the forecast a little and not for long. The zero value knows
// nothing and foretells large messages.
type sizes struct {
	// weight counts the messages, up to maxWeight.
	weight       float64
	mean, square float64
}

const (
	// firstGuess is the size of messages of which none has come: the largest of the tier
	// Standard.
	firstGuess = 256 << 10
	// messageOverhead is the part of every message in memory that its body leaves out.
	messageOverhead = 1 << 10
	// maxWeight is how many messages the forecast follows.
	maxWeight = 512
	// lentWeight is how much what other sessions received counts in a new session.
	lentWeight = 16
	// deviations is how many standard deviations above its mean the sum of the next
	// messages is expected at most.
	deviations = 2
)

// add notes a message.
func (s *sizes) add(weight int) {
	s.weight = min(s.weight+1, maxWeight)
	w := float64(weight)
	s.mean += (w - s.mean) / s.weight
	s.square += (w*w - s.square) / s.weight
}

// lent is the forecast for a session of its own, which soon follows that session.
func (s *sizes) lent() sizes {
	l := *s
	l.weight = min(l.weight, lentWeight)
	return l
}

// sum is what n messages weigh together, at most as far as can be foretold. The
// deviation of a sum grows with the root of its terms only.
func (s *sizes) sum(n int) int {
	if n == 0 {
		return 0
	}
	if s.weight == 0 {
		return n * firstGuess
	}
	variance := max(s.square-s.mean*s.mean, 0)
	return int(float64(n)*s.mean + deviations*math.Sqrt(float64(n)*variance))
}

// fit is how many messages weigh no more than room together, at most most.
func (s *sizes) fit(room, most int) int {
	low, high := 0, most
	for low < high {
		middle := (low + high + 1) / 2
		if s.sum(middle) <= room {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}
