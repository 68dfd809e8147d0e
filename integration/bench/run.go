package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// row is a subject with the way to measure it.
type row struct {
	name, title string
	// about is how long a measurement of full scale takes on two quiet cores, for the
	// forecast.
	about time.Duration
	// loads says that the row loads the services for the scale's latencyFor in addition.
	loads   bool
	measure func(ctx context.Context, b *bench) (reading, error)
}

const (
	// rowTimeout bounds one measurement of a row beyond the time for which it loads the
	// services.
	rowTimeout = 5 * time.Minute
	// rowGrace is how long a row may take to clean up after its timeout. Then the run goes
	// on without it.
	rowGrace = time.Minute
)

// errAbandoned reports a row that did not even end after its timeout.
var errAbandoned = errors.New("the row did not end after its timeout; it may disturb the rows after it")

// bench is a run.
type bench struct {
	Options
	scale scale
	// row is the name of the row that is being measured, for the names of its profiles.
	row string
	// steady is what both services reached with an undisturbed backlog, in events/s, if that
	// was the last measurement of this round that succeeded; 0 otherwise.
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
	var selected []row
	for _, r := range rows(s) {
		if o.Rows == nil || o.Rows.MatchString(r.name) {
			selected = append(selected, r)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("no row matches %s; the rows are %q", o.Rows, Names())
	}
	host := describeHost(ctx, &o)
	measured, err := measureRounds(ctx, o, s, selected)
	return &Report{Host: host, Rows: measured}, err
}

// measureRounds measures rows. Those that failed have failures instead of figures.
func measureRounds(ctx context.Context, o Options, s scale, selected []row) ([]Row, error) {
	measured := make([]Row, len(selected))
	for i, r := range selected {
		measured[i] = Row{Name: r.name, Title: r.title}
	}
	b := &bench{Options: o, scale: s}
	var errs []error
	progress := newProgress(&o, s, selected)
	for round := range o.Rounds {
		b.steady, b.capacity, b.hops = 0, o.Capacity, nil
		for i, r := range selected {
			if ctx.Err() != nil {
				return measured, errors.Join(append(errs, context.Cause(ctx))...)
			}
			progress.begin(round, i)
			b.row = r.name
			one, err := b.measure(ctx, r)
			if err != nil {
				// The others took long to measure, and are still worth something.
				errs = append(errs, fmt.Errorf("measure %s: %w", r.name, err))
				measured[i].Failures = append(measured[i].Failures, err.Error())
				progress.failed(err)
				continue
			}
			measured[i].add(one)
			progress.measured(one.figures[0])
		}
	}
	return measured, errors.Join(errs...)
}

// measure measures a row once. It returns after the row's timeout even if the row does not.
func (b *bench) measure(ctx context.Context, r row) (reading, error) {
	timeout := rowTimeout + b.scale.latencyFor
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %s", timeout))
	defer cancel()
	type outcome struct {
		bench   bench
		reading reading
		err     error
	}
	measured := make(chan outcome, 1)
	// A row that is abandoned must not change what the rows after it read.
	own := *b
	go func() {
		o := outcome{bench: own}
		o.reading, o.err = r.measure(ctx, &o.bench)
		measured <- o
	}()
	var end outcome
	select {
	case end = <-measured:
	case <-ctx.Done():
		select {
		case end = <-measured:
		case <-time.After(rowGrace):
			return reading{}, fmt.Errorf("%w: %w", errAbandoned, context.Cause(ctx))
		}
	}
	*b = end.bench
	if end.err == nil && len(end.reading.figures) == 0 {
		return reading{}, errors.New("the row has no figure")
	}
	return end.reading, end.err
}
