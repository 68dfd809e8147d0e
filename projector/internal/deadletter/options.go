package deadletter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure a [Counter].
type Options struct {
	// Dial opens a connection to the queue. Required.
	Dial func() (Queue, error)
	// Interval is the time between two counts, randomly varied by up to a quarter. Required.
	Interval time.Duration
	// Reasons are the reasons that have their own label in the metric; others count as
	// other.
	Reasons []string
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
}
