package bench

import (
	"fmt"
	"io"
	"time"
)

// progress prints a line before and after each measurement, and forecasts the rest of the
// run.
type progress struct {
	to     io.Writer
	rounds int
	rows   []row
	// about is how long each row takes: at first on two quiet cores, later in this run.
	about []time.Duration

	begun, rowBegun time.Time
	round, row      int
}

// shortShare is the divisor of a row's time in a short run.
const shortShare = 3

func newProgress(o *Options, s scale, rows []row) *progress {
	p := &progress{to: o.Progress, rounds: o.Rounds, rows: rows, begun: time.Now()}
	for _, r := range rows {
		about := r.about
		if o.Short {
			about /= shortShare
		}
		if r.loads {
			about += s.latencyFor
		}
		p.about = append(p.about, about)
	}
	fmt.Fprintf(p.to, "%s in %s: about %s on two quiet cores\n",
		plural(len(rows), "row", "rows"), plural(p.rounds, "round", "rounds"), p.left(0, 0).Round(10*time.Second))
	return p
}

// left forecasts the time from a row to the end of the run.
func (p *progress) left(round, row int) (left time.Duration) {
	for i, about := range p.about {
		left += about * time.Duration(p.rounds-round)
		if i < row {
			left -= about
		}
	}
	return left
}

func (p *progress) begin(round, row int) {
	p.round, p.row, p.rowBegun = round, row, time.Now()
	fmt.Fprintf(p.to, "%s round %d of %d, row %d of %d: %s …\n",
		time.Since(p.begun).Round(time.Second), round+1, p.rounds, row+1, len(p.rows), p.rows[row].name)
}

func (p *progress) measured(f figure) {
	p.about[p.row] = time.Since(p.rowBegun)
	p.end(number(f.value) + " " + f.unit)
}

func (p *progress) failed(err error) { p.end("FAILED: " + err.Error()) }

func (p *progress) end(outcome string) {
	now := time.Now()
	fmt.Fprintf(p.to, "%s   %s: %s, after %s; about %s left\n", now.Sub(p.begun).Round(time.Second), p.rows[p.row].name,
		outcome, now.Sub(p.rowBegun).Round(time.Second), p.left(p.round, p.row+1).Round(10*time.Second))
}
