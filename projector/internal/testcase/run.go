package testcase

import (
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Result is the result of a case. The case has passed if there are no failures.
type Result struct {
	Case     *Case
	Failures []Failure
	// Notes are hints at possible reasons of the failures.
	Notes []string
}

// Failure is one expectation of a case that is not met.
type Failure struct {
	// Line is the line of the expectation, or of the step.
	Line int
	// Step is the number of the step, from 1; 0 if the case has only one.
	Step int
	// Subject is the projection and the aggregate; empty if the failure concerns the
	// whole case.
	Subject string
	// Message describes the failure. It is empty if there are Differences.
	Message     string
	Differences []Difference
	// Again is set if the differences are between the two folds of the case.
	Again bool
}

// Run folds a case, and compares the result of each step with what the step expects. If the case
// passes, Run folds it again, each event by itself, and the results must be the same. The error
// is the cause of ctx.
func (c *Case) Run(ctx context.Context, projections []*projection.Projection) (Result, error) {
	result := Result{Case: c}
	once, err := c.fold(projections, inOneBatch)
	if err == nil {
		for i := range c.Steps {
			result.Failures = append(result.Failures, c.check(i, once[i])...)
		}
	}
	if err == nil && len(result.Failures) == 0 && ctx.Err() == nil {
		var again []State
		if again, err = c.fold(projections, (*folded).each); err == nil {
			for i := range c.Steps {
				result.Failures = append(result.Failures, c.compare(i, once[i], again[i])...)
			}
		}
	}
	if err != nil {
		result.Failures = append(result.Failures, Failure{Line: c.Line, Message: err.Error()})
	}
	if len(result.Failures) > 0 {
		result.Notes = c.unhandled(sourcesOf(projections))
	}
	return result, context.Cause(ctx)
}

// fold folds the events of each step into every projection, and returns the state after each
// step.
func (c *Case) fold(projections []*projection.Projection, apply func(*folded, []*event.Event)) ([]State, error) {
	all := make([]*folded, len(projections))
	for i, p := range projections {
		all[i] = newFolded(p)
	}
	reader := event.NewReader(c.File.contract)
	states := make([]State, len(c.Steps))
	for i, s := range c.Steps {
		events := make([]*event.Event, len(s.Given))
		for j := range s.Given {
			ev, err := reader.Read(s.Given[j].Document())
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", s.Given[j].Line, err)
			}
			events[j] = &ev
		}
		states[i] = newState()
		for _, f := range all {
			apply(f, events)
			f.addTo(&states[i])
		}
	}
	return states, nil
}

// inOneBatch folds the events of each aggregate together.
func inOneBatch(f *folded, events []*event.Event) {
	batches := map[string][]*event.Event{}
	var order []string
	for _, ev := range events {
		if batches[ev.AggregateID] == nil {
			order = append(order, ev.AggregateID)
		}
		batches[ev.AggregateID] = append(batches[ev.AggregateID], ev)
	}
	for _, id := range order {
		f.fold(batches[id])
	}
}
