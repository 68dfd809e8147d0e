package drain

import (
	"math"
	"sync"
)

// sizes forecasts the size of the next message bodies from the mean and the variance of the
// received ones. Both follow the last few hundred messages, so one large message in a
// thousand raises the forecast only a little and for a short time. The zero value forecasts
// large messages. It is safe for concurrent use.
type sizes struct {
	mu sync.Mutex
	// weight counts the messages, up to maxWeight.
	weight       float64
	mean, square float64
}

const (
	// firstGuess is the forecast before the first message: the largest message of the
	// Standard tier.
	firstGuess = 256 << 10
	// messageOverhead is the memory of a message in addition to its body.
	messageOverhead = 1 << 10
	// maxWeight is how many messages the forecast follows.
	maxWeight = 512
	// firstWeight is the weight that the messages of other sessions have in a new session.
	firstWeight = 16
	// deviations is how many standard deviations above the mean the forecast is.
	deviations = 2
)

// add adds received messages.
func (s *sizes) add(batch []*Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range batch {
		s.weight = min(s.weight+1, maxWeight)
		size := float64(d.size + messageOverhead)
		s.mean += (size - s.mean) / s.weight
		s.square += (size*size - s.square) / s.weight
	}
}

// first is the first forecast for a new session. It soon follows the session's own messages.
func (s *sizes) first() *sizes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &sizes{weight: min(s.weight, firstWeight), mean: s.mean, square: s.square}
}

// sum is the forecast upper bound for the total size of n messages. The standard deviation
// of a sum grows only with the square root of n. The caller holds the lock.
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

// fit is how many messages fit into room, up to limit.
func (s *sizes) fit(room, limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	low, high := 0, limit
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
