package config

import (
	"errors"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// History has the settings of building, verifying and reconciling read models from the
// event store.
type History struct {
	RefoldRate       *int     `name:"refold-rate" env:"PENSTOCK_REFOLD_RATE" placeholder:"EVENTS" help:"Events per second that this process reads from the event store at most, in all jobs together that build, sweep or verify read models; 0 means no limit. Without it, the jobs of a projector have no limit: while live events flow, they yield to them at any rate. The command verify is a process of its own, and does not yield: without it, it reads at most 2,000."`
	VerifySample     float64  `name:"verify-sample" env:"PENSTOCK_VERIFY_SAMPLE" default:"1" help:"Share of the read models, above 0 and at most 1, that are compared with the fold of their events before a new generation goes live. 1 compares all of them."`
	Reconcile        Interval `name:"reconcile" env:"PENSTOCK_RECONCILE" default:"1h" placeholder:"DURATION|off" help:"How often all read models are compared with the event store, so that events which the broker lost, expired or dead-lettered are found and folded; off means never. All projectors share the work. At least 10s."`
	ReconcileContent bool     `name:"reconcile-content" env:"PENSTOCK_RECONCILE_CONTENT" help:"Compare the content of the read models with the fold of their events too, and correct it, instead of the last event id alone. Each time, all events are read once for each projection, at the refold rate."`
}

// commandRate is the rate of a command by default. A command may run in the container of a
// projector, and does not yield to its live events.
const commandRate = 2000

// JobRate is how many events per second the jobs of a projector read at most; 0 for no limit.
func (h History) JobRate() int { return h.rate(0) }

// CommandRate is how many events per second a command reads at most; 0 for no limit.
func (h History) CommandRate() int { return h.rate(commandRate) }

func (h History) rate(unset int) int {
	if h.RefoldRate == nil {
		return unset
	}
	return *h.RefoldRate
}

// Interval is a duration; 0 means off.
type Interval time.Duration

// UnmarshalText parses "off" or a duration such as "1h".
func (i *Interval) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*i = 0
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return errors.New("not an interval: use off, or a duration such as 1h")
	}
	*i = Interval(d)
	return nil
}

// minReconcile is the shortest interval, because each sweep reads the whole index of the
// event store.
const minReconcile = 10 * time.Second

func (h History) validate() error {
	var p cli.Problems
	p.Require(h.JobRate() >= 0, "PENSTOCK_REFOLD_RATE is %d: use a positive number of events per second, or 0 for no limit", h.JobRate())
	p.Require(h.VerifySample > 0 && h.VerifySample <= 1, "PENSTOCK_VERIFY_SAMPLE is %v: use more than 0 and at most 1", h.VerifySample)
	interval := time.Duration(h.Reconcile)
	p.Require(interval == 0 || interval >= minReconcile, "PENSTOCK_RECONCILE is %v: use at least %v, or off", interval, minReconcile)
	return errors.Join(p...)
}
