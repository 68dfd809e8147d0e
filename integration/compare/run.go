package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options configure a run. All fields are required, except those that say otherwise.
type Options struct {
	// Publisher is the path of Penstock's publisher, and Self of the program that calls
	// [RunLoop] for the arguments loop and its specification.
	Publisher, Self string
	// Conduit, Monstache and Connect are the paths of the peers' executables; empty to leave
	// one out. Conduit finds its MongoDB connector in the folder connectors beside it.
	Conduit, Monstache, Connect string
	// Mongo is the connection string of the event store, a replica set; empty means a
	// stand-in. The databases penstock-compare and penstock-compare-state are dropped.
	Mongo string
	// Events is how many events a snapshot has. Live events are stored at Rate events per
	// second, for the time For.
	Events, Rate int
	For          time.Duration
	// Progress receives a line for each scenario of each contender.
	Progress io.Writer
}

// scenarioTimeout bounds one scenario of one contender, beyond the time for which it stores
// events.
const scenarioTimeout = 10 * time.Minute

// missing is the cell of a scenario that a contender does not have.
const missing = "–"

// Run runs all scenarios of all contenders, and writes the table as Markdown. If a scenario
// fails, its cells say so, and the error names it.
func Run(ctx context.Context, o Options, table io.Writer) error {
	all := o.contenders(ctx)
	head, line, where := "| |", "|---|", "| destination |"
	for _, who := range all {
		head += " " + strings.TrimSpace(who.name+" "+who.version) + " |"
		line += "---|"
		where += " " + who.destination + " |"
	}
	var errs []error
	rows := []string{head, line, where}
	for _, s := range scenarios() {
		cells := make([][]string, len(all))
		for i, who := range all {
			var err error
			cells[i] = slices.Repeat([]string{missing}, len(s.rows))
			if s.live && who.snapshotOnly {
				continue
			}
			fmt.Fprintf(o.Progress, "%s: %s\n", who.name, s.name)
			if cells[i], err = o.run(ctx, s, who); err != nil {
				if ctx.Err() != nil {
					return errors.Join(append(errs, context.Cause(ctx))...)
				}
				errs = append(errs, fmt.Errorf("%s, %s: %w", who.name, s.name, err))
				cells[i] = slices.Repeat([]string{"failed"}, len(s.rows))
			}
		}
		for n, title := range s.rows {
			row := "| " + title + " |"
			for i := range all {
				row += " " + cells[i][n] + " |"
			}
			rows = append(rows, row)
		}
	}
	if _, err := fmt.Fprintln(table, strings.Join(rows, "\n")); err != nil {
		errs = append(errs, fmt.Errorf("write the table: %w", err))
	}
	return errors.Join(errs...)
}

func (o *Options) run(ctx context.Context, s scenario, who contender) (cells []string, err error) {
	limit := scenarioTimeout + o.For
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	c, err := o.newCourse(ctx, who)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return s.run(ctx, c)
}

// number formats a count, or a figure with at least two significant digits, and separates
// thousands.
func number(n float64) string {
	switch {
	case n < 10 && n != math.Trunc(n):
		return strconv.FormatFloat(n, 'f', 1, 64)
	case n < 1000:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
