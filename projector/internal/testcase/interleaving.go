package testcase

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// interleavings is the number of runs in which the events of several aggregates are mixed at
// random.
const interleavings = 5

// interleaved returns the runs for views. Each delivers the events one by one, and those of
// different aggregates in another order: one aggregate after the other, in both directions; an
// event of each in turn; and mixed at random. There are none without a view, because other
// documents depend on one aggregate.
func (r *Runner) interleaved(c *Case) (runs []run) {
	if !slices.ContainsFunc(r.Projections, func(p Projection) bool { return p.View }) {
		return nil
	}
	random := r.random(c, splits)
	arrangements := []func(aggregates []string){slices.Sort[[]string], backwards, inTurn}
	for range interleavings {
		arrangements = append(arrangements, func(aggregates []string) { shuffle(random, aggregates) })
	}
	asGiven := make([][]int, len(c.Steps))
	for i := range c.Steps {
		asGiven[i] = numbers(0, len(c.Steps[i].Given))
	}
	seen := map[string]bool{fmt.Sprint(asGiven): true}
	for _, arrange := range arrangements {
		orders := make([][]int, len(c.Steps))
		for i := range c.Steps {
			aggregates := aggregatesOf(c.Steps[i].Given)
			arrange(aggregates)
			orders[i] = interleave(c.Steps[i].Given, aggregates)
		}
		if key := fmt.Sprint(orders); !seen[key] {
			seen[key] = true
			runs = append(runs, run{
				"with the events one by one, in the order of lines " + c.lines(orders),
				func(ctx context.Context, c *Case) ([]State, error) { return r.ordered(ctx, c, orders) },
			})
		}
	}
	return runs
}

// ordered delivers the events one by one in the given order of each step.
func (r *Runner) ordered(ctx context.Context, c *Case, orders [][]int) ([]State, error) {
	step := 0
	return r.play(ctx, c, func(ctx context.Context, p Pipeline, _ Step, from, _ int) error {
		for _, i := range orders[step] {
			if err := p.Deliver(ctx, []int{from + i}); err != nil {
				return err
			}
		}
		step++
		return nil
	})
}

// aggregatesOf returns the aggregate of each event.
func aggregatesOf(given []Event) []string {
	aggregates := make([]string, len(given))
	for i := range given {
		aggregates[i] = given[i].AggregateID
	}
	return aggregates
}

// interleave returns the indexes of events in the order in which their aggregates are listed.
// It keeps the order of each aggregate's events.
func interleave(given []Event, aggregates []string) []int {
	queues := map[string][]int{}
	for i := range given {
		id := given[i].AggregateID
		queues[id] = append(queues[id], i)
	}
	order := make([]int, len(aggregates))
	for i, id := range aggregates {
		order[i], queues[id] = queues[id][0], queues[id][1:]
	}
	return order
}

func backwards(aggregates []string) {
	slices.Sort(aggregates)
	slices.Reverse(aggregates)
}

// inTurn arranges the first events of all aggregates before their second ones, and so on.
func inTurn(aggregates []string) {
	rounds := map[int][]string{}
	seen := map[string]int{}
	for _, id := range aggregates {
		rounds[seen[id]] = append(rounds[seen[id]], id)
		seen[id]++
	}
	aggregates = aggregates[:0]
	for round := range len(rounds) {
		aggregates = append(aggregates, rounds[round]...)
	}
}

func shuffle(random *rand.Rand, aggregates []string) {
	random.Shuffle(len(aggregates), func(i, j int) { aggregates[i], aggregates[j] = aggregates[j], aggregates[i] })
}

// shownLines bounds the lines in the name of a run.
const shownLines = 20

// lines lists the lines of the events in an order.
func (c *Case) lines(orders [][]int) string {
	var lines []string
	for step, order := range orders {
		for _, i := range order {
			lines = append(lines, strconv.Itoa(c.Steps[step].Given[i].Line))
		}
	}
	if len(lines) > shownLines {
		lines = append(lines[:shownLines], "…")
	}
	return strings.Join(lines, ", ")
}
