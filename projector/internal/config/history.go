package config

import "errors"

// History says what happens when a projection is added or changed.
type History struct {
	OnChange     string  `name:"on-change" env:"PENSTOCK_ON_CHANGE" enum:"rebuild,refuse" default:"rebuild" help:"What the projector does if a projection was changed: build its read models anew from the event store while the old ones stay in use (rebuild), or exit with what has changed and the command that starts the rebuild (refuse). A new projection is always built."`
	RefoldRate   int     `name:"refold-rate" env:"PENSTOCK_REFOLD_RATE" default:"2000" help:"Events per second that this process reads from the event store at most, in all jobs together that build, sweep or verify read models; 0 means no limit. While live events flow, the jobs yield to them at any rate."`
	VerifySample float64 `name:"verify-sample" env:"PENSTOCK_VERIFY_SAMPLE" default:"1" help:"Share of the read models, above 0 and at most 1, that are compared with the fold of their events before a new generation goes live. 1 compares all of them."`
}

// OnChangeRefuse is the value of [History.OnChange] that leaves a rebuild to a command.
const OnChangeRefuse = "refuse"

func (h History) validate() error {
	var p problems
	p.require(h.RefoldRate >= 0, "PENSTOCK_REFOLD_RATE is %d: use a positive number of events per second, or 0 for no limit", h.RefoldRate)
	p.require(h.VerifySample > 0 && h.VerifySample <= 1, "PENSTOCK_VERIFY_SAMPLE is %v: use more than 0 and at most 1", h.VerifySample)
	return errors.Join(p...)
}
