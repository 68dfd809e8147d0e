package bench

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// Options are the flags of a run.
type Options struct {
	Rows       string        `help:"Measure only the rows whose name matches this regular expression; --list names them." env:"BENCH" placeholder:"REGEXP"`
	Rounds     int           `help:"How often each row is measured." env:"ROUNDS" default:"3" placeholder:"N"`
	Short      bool          `help:"Measure fewer events and shorter times, to try everything; the figures are not worth quoting." env:"SHORT"`
	Limits     bool          `help:"Measure the limits too. Leave them out to compare two revisions." default:"true" negatable:""`
	Latency    time.Duration `help:"Latency that is added to each frame to and from the broker, each way." default:"2ms"`
	LatencyFor time.Duration `help:"How long each latency row loads the services; 0 means 60s, or 5s with --short." env:"LATENCY_FOR" default:"0"`
	Capacity   float64       `help:"Events/s of which the latency rows load 25, 50 and 80 %; 0 measures what both services reach. Give it to compare revisions at the same rate." env:"CAPACITY" default:"0" placeholder:"RATE"`
	harness.Binaries
	// Self is the executable that runs a limit when its arguments are "limit", a limit's
	// name and a specification. Its main function calls [RunLimit].
	Self string `kong:"-"`
	// Progress gets a line for each measurement; nil discards them.
	Progress io.Writer `kong:"-"`
}

// Validate returns every problem of the flags at once. kong calls it.
func (o *Options) Validate() error {
	_, err := regexp.Compile(o.Rows)
	if err != nil {
		err = fmt.Errorf("BENCH: %w", err)
	}
	if o.Rounds < 1 {
		err = errors.Join(err, errors.New("ROUNDS must be at least 1"))
	}
	return errors.Join(err, o.Check())
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
