package backlog

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure a [Counter]. Zero fields get their defaults.
type Options struct {
	// Dial makes a connection. Required.
	Dial func() (Connection, error)
	// Interval is the time between two counts, randomly varied by up to a quarter; 30 s
	// by default.
	Interval time.Duration
	// Limit ends a count. A number below it is exact; otherwise there are at least so
	// many sessions. The default is 5,000, because all processes together can hold no
	// more sessions: an entity of Service Bus allows 5,000 receivers.
	Limit int
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
}

const (
	defaultInterval = 30 * time.Second
	defaultLimit    = 5000
)

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	return o
}
