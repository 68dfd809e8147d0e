package deadletter

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	defaultInterval   = 30 * time.Second
	defaultLimit      = 250
	defaultLimitBytes = 16 << 20
)

// Options configure a [Counter]. Zero fields get their defaults.
type Options struct {
	// Dial opens a connection to the queue. Required.
	Dial func() (Queue, error)
	// Interval is the time between two counts, randomly varied by up to a quarter; 30 s
	// by default.
	Interval time.Duration
	// Limit is the largest number of messages that is counted; 250 by default.
	Limit int
	// Reasons are the reasons that have their own label in the metric; others count as
	// other.
	Reasons []string
	// LimitBytes ends a count after messages of this total size, in bytes; 16 MiB by
	// default.
	LimitBytes int
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	o.LimitBytes = cmp.Or(o.LimitBytes, defaultLimitBytes)
	return o
}
