package testcase

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Runner runs cases.
type Runner struct {
	// Start makes a pipeline with empty stores.
	Start func() (Pipeline, error)
	// Projections are the projections under test.
	Projections []Projection
	// Seed is the seed of the random batches.
	Seed uint64
}

// Result is the result of a case. The case has passed if there are no failures.
type Result struct {
	Case     *Case
	Failures []Failure
	// Notes are hints at possible reasons of the failures.
	Notes    []string
	Duration time.Duration
}

// Failure is one expectation of a case that is not met.
type Failure struct {
	// Line is the line of the expectation, or of the step.
	Line int
	// Run is the name of the run; empty for the run as given.
	Run string
	// Step is the number of the step, from 1; 0 if the case has only one.
	Step int
	// Subject is the projection and the aggregate; empty if the failure concerns the
	// whole run.
	Subject string
	// Message describes the failure. It is empty if there are Differences.
	Message     string
	Differences []Difference
	// ToGiven is set if the differences are to the run as given instead of to the
	// expectation.
	ToGiven bool
}

// splits is the number of runs with random batches per case.
const splits = 3

// run is one way in which events reach a projector.
type run struct {
	name string
	play func(ctx context.Context, c *Case) ([]State, error)
}

// Run runs a case as given and, if it passes, in every other way. The error is the cause
// of ctx.
func (r *Runner) Run(ctx context.Context, c *Case) (Result, error) {
	begin := time.Now()
	result := Result{Case: c}
	given, err := r.asGiven(ctx, c)
	if err != nil {
		result.Failures = append(result.Failures, Failure{Line: c.Line, Message: err.Error()})
	} else {
		for i := range c.Steps {
			result.Failures = append(result.Failures, c.check(i, given[i])...)
		}
	}
	if len(result.Failures) == 0 {
		for _, other := range r.others(c) {
			states, err := other.play(ctx, c)
			if err != nil {
				result.Failures = append(result.Failures, Failure{Line: c.Line, Run: other.name, Message: err.Error()})
				continue
			}
			for i := range c.Steps {
				result.Failures = append(result.Failures, c.compare(i, other.name, given[i], states[i])...)
			}
		}
	}
	if len(result.Failures) > 0 {
		result.Notes = c.unhandled(r.Projections)
	}
	result.Duration = time.Since(begin)
	return result, context.Cause(ctx)
}

// others returns all runs except the run as given.
func (r *Runner) others(c *Case) []run {
	runs := []run{
		{"with each event delivered again", r.redelivered},
		{"with a crash after every write", r.crashes},
		{"rebuilt from the event store", r.rebuilt},
	}
	for i := range splits {
		runs = append(runs, run{
			fmt.Sprintf("in other batches (--seed %d)", r.Seed),
			func(ctx context.Context, c *Case) ([]State, error) { return r.batches(ctx, c, uint64(i)) },
		})
	}
	return append(runs, r.interleaved(c)...)
}

// asGiven delivers each step's events in one batch.
func (r *Runner) asGiven(ctx context.Context, c *Case) ([]State, error) {
	return r.play(ctx, c, func(ctx context.Context, p Pipeline, _ Step, from, to int) error {
		return p.Deliver(ctx, numbers(from, to))
	})
}

// redelivered delivers each event twice, and then all events of the case so far.
func (r *Runner) redelivered(ctx context.Context, c *Case) ([]State, error) {
	return r.play(ctx, c, func(ctx context.Context, p Pipeline, _ Step, from, to int) error {
		for i := from; i < to; i++ {
			for range 2 {
				if err := p.Deliver(ctx, []int{i}); err != nil {
					return err
				}
			}
		}
		return p.Deliver(ctx, numbers(0, to))
	})
}

// crashes delivers each step's events to a projector that crashes after every write.
func (r *Runner) crashes(ctx context.Context, c *Case) ([]State, error) {
	return r.play(ctx, c, func(ctx context.Context, p Pipeline, _ Step, from, to int) error {
		p.CrashAfterWrites()
		return p.Deliver(ctx, numbers(from, to))
	})
}

// batches delivers the events in batches of random sizes. The events of different
// aggregates are mixed at random; those of one aggregate stay in order.
func (r *Runner) batches(ctx context.Context, c *Case, try uint64) ([]State, error) {
	random := r.random(c, try)
	return r.play(ctx, c, func(ctx context.Context, p Pipeline, s Step, from, _ int) error {
		aggregates := aggregatesOf(s.Given)
		shuffle(random, aggregates)
		events := interleave(s.Given, aggregates)
		for i := range events {
			events[i] += from
		}
		for len(events) > 0 {
			n := 1 + random.IntN(len(events))
			if err := p.Deliver(ctx, events[:n]); err != nil {
				return err
			}
			events = events[n:]
		}
		return nil
	})
}

// random returns the source of random numbers of a case.
func (r *Runner) random(c *Case, try uint64) *rand.Rand {
	name := fnv.New64a()
	_, _ = name.Write([]byte(c.Name))
	return rand.New(rand.NewPCG(r.Seed, name.Sum64()+try))
}

// play runs the steps on a pipeline and returns its state after each.
func (r *Runner) play(ctx context.Context, c *Case, deliver func(ctx context.Context, p Pipeline, s Step, from, to int) error) ([]State, error) {
	p, err := r.Start()
	if err != nil {
		return nil, err
	}
	states := make([]State, len(c.Steps))
	n := 0
	for i, s := range c.Steps {
		if err := appendAll(p, s.Given); err != nil {
			return nil, err
		}
		if err := deliver(ctx, p, s, n, n+len(s.Given)); err != nil {
			return nil, err
		}
		n += len(s.Given)
		states[i] = p.State()
	}
	return states, nil
}

// rebuilt rebuilds, for each step, the read models from the events up to that step.
func (r *Runner) rebuilt(ctx context.Context, c *Case) ([]State, error) {
	states := make([]State, len(c.Steps))
	for i := range c.Steps {
		p, err := r.Start()
		if err != nil {
			return nil, err
		}
		for _, s := range c.Steps[:i+1] {
			if err := appendAll(p, s.Given); err != nil {
				return nil, err
			}
		}
		if err := p.Rebuild(ctx); err != nil {
			return nil, err
		}
		states[i] = p.State()
	}
	return states, nil
}

func appendAll(p Pipeline, events []Event) error {
	for i := range events {
		if err := p.Append(events[i].Document()); err != nil {
			return fmt.Errorf("line %d: %w", events[i].Line, err)
		}
	}
	return nil
}

func numbers(from, to int) []int {
	n := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		n = append(n, i)
	}
	return n
}
