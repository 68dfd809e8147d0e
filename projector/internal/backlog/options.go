package backlog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure a [Counter].
type Options struct {
	// Dial makes a connection. Required.
	Dial func() (Connection, error)
	// Interval is the time between two counts, randomly varied by up to a quarter. Required.
	Interval time.Duration
	// Limit ends a count. A number below it is exact; otherwise there are at least so
	// many sessions. Required.
	Limit int
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
}
