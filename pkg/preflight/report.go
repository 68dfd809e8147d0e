package preflight

import (
	"fmt"
	"io"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// State is the result of a check.
type State string

// States.
const (
	OK State = "ok"
	// Warning: the service runs, but something is missing or unwise.
	Warning State = "warning"
	// Failed: the service cannot run like this.
	Failed State = "failed"
)

// Line is one check.
type Line struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Remedy says what to do; empty if the state is ok.
	Remedy string `json:"remedy,omitempty"`
	// MayPass means that the failure may pass by itself.
	MayPass bool `json:"mayPass,omitempty"`
}

// Flags are the flags of a command that checks. Embed it.
type Flags struct {
	cli.Output
	Init bool `name:"init" help:"For an init container: exit with status 1 only if a line has failed that cannot pass by itself. A server that does not answer does not hold up the start, because the service waits for it."`
}

// Report collects lines. The zero value is empty.
type Report struct{ lines []Line }

// OK adds a check that passed.
func (r *Report) OK(check, detail string) {
	r.lines = append(r.lines, Line{Check: check, State: OK, Detail: detail})
}

// Warn adds a check with a warning.
func (r *Report) Warn(check, detail, remedy string) {
	r.lines = append(r.lines, Line{Check: check, State: Warning, Detail: detail, Remedy: remedy})
}

// Fail adds a check that failed.
func (r *Report) Fail(check, detail, remedy string) {
	r.lines = append(r.lines, Line{Check: check, State: Failed, Detail: detail, Remedy: remedy})
}

// Unreached adds a check that could not be made now but may be possible later.
func (r *Report) Unreached(check, detail, remedy string) {
	r.lines = append(r.lines, Line{Check: check, State: Failed, Detail: detail, Remedy: remedy, MayPass: true})
}

// Print prints the lines. If one has failed, the error is [cli.ErrFindings].
func (r *Report) Print(w io.Writer, f Flags) error {
	var err error
	if f.JSON() {
		err = cli.PrintJSON(w, append([]Line{}, r.lines...))
	} else {
		for _, l := range r.lines {
			if l.Remedy == "" {
				fmt.Fprintf(w, "%-8s %s: %s\n", l.State, l.Check, cli.Plain(l.Detail))
				continue
			}
			fmt.Fprintf(w, "%-8s %s: %s\n%-8s   -> %s\n", l.State, l.Check, cli.Plain(l.Detail), "", cli.Plain(l.Remedy))
		}
	}
	if err != nil {
		return err
	}
	for _, l := range r.lines {
		if l.State == Failed && (!f.Init || !l.MayPass) {
			return cli.ErrFindings
		}
	}
	return nil
}
