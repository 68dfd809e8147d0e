package operate

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// progress shows the progress of a job: a bar on a terminal, otherwise a line every
// [lineEvery].
type progress struct {
	out      io.Writer
	name     string
	count    string
	terminal bool
	// job is the last shown job. It was first seen at start, when its count was from; the
	// rate is computed since then.
	job   string
	from  int64
	start time.Time
	// shown is when the last line was printed, if there is no terminal.
	shown time.Time
}

// newProgress shows a job under that name. count is the job's count that is compared with
// its total.
func newProgress(out io.Writer, terminal bool, name, count string) *progress {
	now := time.Now()
	return &progress{out: out, name: name, count: count, terminal: terminal, start: now, shown: now}
}

// lineEvery is how often a line is printed if there is no terminal.
const lineEvery = 10 * time.Second

// show shows a job.
func (p *progress) show(j job.Job) {
	now := time.Now()
	if p.job != j.ID {
		p.job, p.from, p.start = j.ID, j.Counts[p.count], now
	}
	line := progressLine(p.name, j, p.count, p.from, now.Sub(p.start))
	if p.terminal {
		// The line overwrites the last one; \x1b[K erases the rest of a longer one.
		fmt.Fprintf(p.out, "\r%s\x1b[K", line)
		return
	}
	p.repeat(line)
}

// repeat prints a line, unless [lineEvery] has not passed since the last one. A terminal still
// shows the line.
func (p *progress) repeat(line string) {
	if now := time.Now(); !p.terminal && now.Sub(p.shown) >= lineEvery {
		p.shown = now
		fmt.Fprintln(p.out, line)
	}
}

// end ends the bar.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// barWidth is the width of the bar, in characters.
const barWidth = 24

// progressLine formats a job as one line: the bar, the amount, the rate and the time left.
// The rate is computed over since, the time since the count was from.
func progressLine(name string, j job.Job, count string, from int64, since time.Duration) string {
	done := j.Counts[count]
	share := 0.0
	if j.Total > 0 {
		share = min(1, float64(done)/float64(j.Total))
	} else if j.Ranges > 0 {
		share = float64(j.RangesDone) / float64(j.Ranges)
	}
	filled := int(share * barWidth)
	line := fmt.Sprintf("%s [%s%s] %3.0f%%", name, strings.Repeat("#", filled), strings.Repeat("-", barWidth-filled), share*100)
	if rate := float64(done-from) / since.Seconds(); done > from && since > 0 {
		line += fmt.Sprintf("  %s, %.0f/s", counted(done, count), rate)
		if left := float64(j.Total-done) / rate; left > 0 && j.Counts[history.CountLate] == 0 {
			line += fmt.Sprintf(", %s left", poll.Duration((time.Duration(left*float64(time.Second)) + time.Second).Truncate(time.Second)))
		}
	}
	if late := j.Counts[history.CountLate]; late > 0 {
		line += fmt.Sprintf(", waiting for --grace: %d behind", late)
	}
	if j.Reason != "" {
		line += fmt.Sprintf("  %s %s", j.State, j.Reason)
	}
	return line
}

// counted writes one of a job's counts, whose names are in the plural if they are nouns.
func counted(n int64, name string) string {
	if n == 1 {
		name = strings.TrimSuffix(name, "s")
	}
	return fmt.Sprintf("%d %s", n, name)
}
