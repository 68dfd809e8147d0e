package bench

import (
	"io"
	"regexp"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// Options configure a run. Binaries and Self are required.
type Options struct {
	// Binaries are the services.
	Binaries harness.Binaries
	// Self is the executable that runs a limit when its arguments are "limit", a limit's
	// name and a specification. Its main function calls [RunLimit].
	Self string
	// Rows selects rows by name; nil selects all.
	Rows *regexp.Regexp
	// Rounds is how often each row is measured; 0 means 3.
	Rounds int
	// Short measures fewer events and shorter times, to try all rows. Its figures must not
	// be quoted.
	Short bool
	// WithoutLimits skips the limits, for comparisons of two revisions.
	WithoutLimits bool
	// BrokerLatency is added to each frame to and from the broker, each way.
	BrokerLatency time.Duration
	// LatencyFor is how long each latency row loads the services; 0 means 60 s, or 5 s if
	// Short.
	LatencyFor time.Duration
	// Capacity is the rate in events/s of which the latency rows use shares; 0 means that
	// they measure what both services reach. Compare two revisions at the same rate.
	Capacity float64
	// Progress gets a line for each measurement; nil discards them.
	Progress io.Writer
}

// scale is the number of events and the duration of the rows.
type scale struct {
	steady      int   // events of the publisher's steady row
	catchUps    []int // events of its catch-up rows
	buckets     int   // events of the projector in buckets
	aggregates  int   // events of the projector with a session for each aggregate
	pipeline    int   // events of a row with both services
	view        int   // events of the view's row
	idle        int   // aggregates that are idle
	growth      int   // events of each step of the growth row
	latencyFor  time.Duration
	capacityFor time.Duration
	warmUp      time.Duration // of a latency row, whose events are not measured
}

func (o *Options) scale() scale {
	s := scale{
		steady: 200_000, catchUps: []int{10_000, 100_000, 1_000_000}, buckets: 100_000, aggregates: 40_000,
		pipeline: 40_000, view: 20_000, idle: 100_000, growth: 20_000,
		latencyFor: time.Minute, capacityFor: 10 * time.Second, warmUp: 3 * time.Second,
	}
	if o.Short {
		s = scale{
			steady: 50_000, catchUps: []int{10_000, 50_000}, buckets: 20_000, aggregates: 8_000,
			pipeline: 8_000, view: 4_000, idle: 100_000, growth: 4_000,
			latencyFor: 5 * time.Second, capacityFor: 3 * time.Second, warmUp: time.Second,
		}
	}
	if o.LatencyFor > 0 {
		s.latencyFor = o.LatencyFor
	}
	return s
}
