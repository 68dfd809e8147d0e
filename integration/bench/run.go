package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// row is a subject with the way to measure it.
type row struct {
	name, title string
	measure     func(ctx context.Context, b *bench) (reading, error)
}

// rowTimeout bounds one measurement of a row beyond the time for which it loads the
// services.
const rowTimeout = 10 * time.Minute

// bench is a run.
type bench struct {
	Options
	scale scale
	// row is the name of the row that is being measured, for the names of its profiles.
	row string
	// steady is what both services reach with an undisturbed backlog in this round, in
	// events/s; 0 until it is measured.
	steady float64
	// capacity is what both services reached together in this round, in events/s; 0 until
	// it is measured.
	capacity float64
	// hops is the sum of the bare hops, measured once a round.
	hops *limitResult
}

// Names are the names of all rows in their order.
func Names() []string {
	o := Options{}
	var names []string
	for _, r := range rows(o.scale()) {
		names = append(names, r.name)
	}
	return names
}

// rows are all rows of that scale.
func rows(s scale) []row {
	all := []row{publisherSteady()}
	for _, n := range s.catchUps {
		all = append(all, publisherCatchUp(n))
	}
	all = append(all, projectorBuckets(), projectorAggregates())
	all = append(all, pipelineRows()...)
	all = append(all, latencyRows()...)
	return append(all, growth(), plainLoops())
}

// Run measures the rows, all of them once a round, so that a machine that becomes busy
// meets all of them alike. If a row fails, the report has the others, and the error says
// which one failed.
func Run(ctx context.Context, o Options) (*Report, error) {
	return measureRows(ctx, o, o.scale())
}

func measureRows(ctx context.Context, o Options, s scale) (*Report, error) {
	o.Rounds = cmp.Or(o.Rounds, 3)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	report := &Report{Host: describeHost(ctx, &o)}
	b := &bench{Options: o, scale: s}
	var selected []row
	for _, r := range rows(b.scale) {
		if o.Rows == nil || o.Rows.MatchString(r.name) {
			selected = append(selected, r)
			report.Rows = append(report.Rows, Row{Name: r.name, Title: r.title})
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("no row matches %s; the rows are %q", o.Rows, Names())
	}
	var errs []error
	for round := range o.Rounds {
		b.steady, b.capacity, b.hops = 0, 0, nil
		for i, r := range selected {
			begun := time.Now()
			b.row = r.name
			one, err := b.measure(ctx, r)
			if err != nil {
				// The others took long to measure, and are still worth something.
				errs = append(errs, fmt.Errorf("measure %s: %w", r.name, err))
				fmt.Fprintf(o.Progress, "round %d of %d: %-32s failed: %v\n", round+1, o.Rounds, r.name, err)
				continue
			}
			report.Rows[i].add(one)
			fmt.Fprintf(o.Progress, "round %d of %d: %-32s %s %s, after %s\n", round+1, o.Rounds, r.name,
				number(one.figures[0].value), one.figures[0].unit, time.Since(begun).Round(time.Second))
		}
	}
	report.Rows = slices.DeleteFunc(report.Rows, func(r Row) bool { return len(r.Figures) == 0 })
	return report, errors.Join(errs...)
}

func (b *bench) measure(ctx context.Context, r row) (reading, error) {
	timeout := rowTimeout + b.scale.latencyFor
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
	defer cancel()
	return r.measure(ctx, b)
}
