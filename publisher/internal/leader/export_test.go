package leader

import "time"

// DefaultConfig returns the durations that Kubernetes itself uses (15 s, 10 s, 2 s), and 20 s
// to drain.
func DefaultConfig() Config {
	return NewConfig(15*time.Second, 10*time.Second, 2*time.Second, 20*time.Second)
}
