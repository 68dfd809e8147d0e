package config

import (
	"errors"
	"time"
)

// History has the settings of building, verifying and reconciling read models from the
// event store.
type History struct {
	OnChange         string   `name:"on-change" env:"PENSTOCK_ON_CHANGE" enum:"rebuild,refuse" default:"rebuild" help:"What the projector does if a projection was changed: build its read models again from the event store while the old ones stay in use (rebuild), or exit with what has changed and the command that starts the rebuild (refuse). A new projection is always built."`
	RefoldRate       int      `name:"refold-rate" env:"PENSTOCK_REFOLD_RATE" default:"2000" help:"Events per second that this process reads from the event store at most, in all jobs together that build, sweep or verify read models; 0 means no limit. While live events flow, the jobs yield to them at any rate. The commands verify and deadletters resubmit are processes of their own: they keep to the same rate, and do not yield."`
	VerifySample     float64  `name:"verify-sample" env:"PENSTOCK_VERIFY_SAMPLE" default:"1" help:"Share of the read models, above 0 and at most 1, that are compared with the fold of their events before a new generation goes live. 1 compares all of them."`
	Reconcile        Interval `name:"reconcile" env:"PENSTOCK_RECONCILE" default:"1h" placeholder:"DURATION|off" help:"How often all read models are compared with the event store, so that events which the broker lost, expired or dead-lettered are found and folded; off means never. One process at a time sees to it, and dead letters whose events have taken effect are removed. At least 10s."`
	ReconcileContent bool     `name:"reconcile-content" env:"PENSTOCK_RECONCILE_CONTENT" help:"Compare the content of the read models with the fold of their events too, and correct it, instead of the last event id alone. Each time, all events are read once for each projection, at the refold rate. With the sequence increasing it is always on."`
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

// OnChangeRefuse is the value of [History.OnChange] that leaves a rebuild to a command.
const OnChangeRefuse = "refuse"

func (h History) validate() error {
	var p problems
	p.require(h.RefoldRate >= 0, "PENSTOCK_REFOLD_RATE is %d: use a positive number of events per second, or 0 for no limit", h.RefoldRate)
	p.require(h.VerifySample > 0 && h.VerifySample <= 1, "PENSTOCK_VERIFY_SAMPLE is %v: use more than 0 and at most 1", h.VerifySample)
	interval := time.Duration(h.Reconcile)
	p.require(interval == 0 || interval >= minReconcile, "PENSTOCK_RECONCILE is %v: use at least %v, or off", interval, minReconcile)
	return errors.Join(p...)
}
