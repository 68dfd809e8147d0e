package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// row is a row of the report, with its measurement.
type row struct {
	name, title string
	// loads is how often the row loads the services for [scale.latencyFor]; 0 means once.
	loads   int
	measure func(ctx context.Context, b *bench) (reading, error)
}

// rowTimeout bounds one measurement of a row beyond the time for which it loads the services.
const rowTimeout = 5 * time.Minute

// bench is a run.
type bench struct {
	Options
	scale scale
	// steady is what both services reached with an undisturbed backlog, in events/s, if
	// that was the last successful measurement of this round; 0 otherwise.
	steady float64
	// capacity is what both services reached together in this round, in events/s; 0 until
	// it is measured.
	capacity float64
}

// Names returns the names of all rows in their order.
func Names() []string {
	o := Options{}
	var names []string
	for _, r := range rows(o.scale()) {
		names = append(names, r.name)
	}
	return names
}

// rows returns all rows of a scale.
func rows(s scale) []row {
	all := []row{publisherSteady()}
	for _, n := range s.catchUps {
		all = append(all, publisherCatchUp(n))
	}
	all = append(all, projectorBuckets(), projectorAggregates())
	all = append(all, pipelineRows()...)
	all = append(all, latencyRows()...)
	return append(all, viewHot(), growth())
}

// Run measures the rows, all of them once in each round, so that load on the machine
// affects all rows equally. If a row fails, the report has the others, and the error names
// the failed one.
func Run(ctx context.Context, o Options) (*Report, error) {
	return measureRows(ctx, o, o.scale())
}

func measureRows(ctx context.Context, o Options, s scale) (*Report, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	matching, err := regexp.Compile(o.Rows)
	if err != nil {
		return nil, err
	}
	var selected []row
	for _, r := range rows(s) {
		if matching.MatchString(r.name) {
			selected = append(selected, r)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("no row matches %s; the rows are %q", o.Rows, Names())
	}
	defer collectBetweenRows()()
	host := describeHost(ctx, &o)
	measured, err := measureRounds(ctx, o, s, selected)
	return &Report{Host: host, Rows: measured}, err
}

// measureRounds measures rows. A failed row has Failures instead of figures.
func measureRounds(ctx context.Context, o Options, s scale, selected []row) ([]Row, error) {
	measured := make([]Row, len(selected))
	for i, r := range selected {
		measured[i] = Row{Name: r.name, Title: r.title}
	}
	b := &bench{Options: o, scale: s}
	var errs []error
	begun := time.Now()
	progress := func(format string, args ...any) {
		fmt.Fprintf(o.Progress, "%s %s\n", time.Since(begun).Round(time.Second), fmt.Sprintf(format, args...))
	}
	for round := range o.Rounds {
		b.steady, b.capacity = 0, o.Capacity
		for i, r := range selected {
			if ctx.Err() != nil {
				return measured, errors.Join(append(errs, context.Cause(ctx))...)
			}
			progress("round %d of %d, row %d of %d: %s …", round+1, o.Rounds, i+1, len(selected), r.name)
			one, err := b.measure(ctx, r)
			if err != nil {
				// Keep the other rows' results, which took long to measure.
				errs = append(errs, fmt.Errorf("measure %s: %w", r.name, err))
				measured[i].Failures = append(measured[i].Failures, err.Error())
				progress("  %s FAILED: %v", r.name, err)
				continue
			}
			measured[i].readings = append(measured[i].readings, one)
			progress("  %s: %s %s", r.name, number(one.figures[0].value), one.figures[0].unit)
		}
	}
	return measured, errors.Join(errs...)
}

// measure measures a row once, within the row's timeout.
func (b *bench) measure(ctx context.Context, r row) (reading, error) {
	timeout := rowTimeout + time.Duration(max(1, r.loads))*b.scale.latencyFor
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
	defer cancel()
	one, err := r.measure(ctx, b)
	if err == nil && len(one.figures) == 0 {
		err = errors.New("the row has no figure")
	}
	return one, err
}
