package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// growthSlots limits a projector of the growth row, so that a process waits for round trips
// most of the time. Then several processes can add up on the cores of one machine.
const growthSlots = 8

// growth measures 1, 2 and 4 projectors, and their requests to the state database.
func growth() row {
	return row{
		name: "growth/projectors", title: fmt.Sprintf("Projectors of %d sessions each, a session for each aggregate", growthSlots),
		measure: func(ctx context.Context, b *bench) (reading, error) {
			var r reading
			for _, processes := range []int{1, 2, 4} {
				if err := b.measureProjectors(ctx, processes, &r); err != nil {
					return reading{}, fmt.Errorf("%d projectors: %w", processes, err)
				}
			}
			return r, nil
		},
	}
}

func (b *bench) measureProjectors(ctx context.Context, processes int, r *reading) (err error) {
	// The number of events is proportional to the processes, so that all steps take about
	// equally long.
	w := shop.New(b.scale.growth*processes, 1)
	n := len(w.Events)
	e, err := b.newEnvironment(ctx, with{projector: []string{fmt.Sprintf("PENSTOCK_SESSIONS=%d", growthSlots)}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.publishAll(ctx, w.Events); err != nil {
		return err
	}
	// Messages that the first projector settles before the last one is ready do not count.
	all, err := e.startProjectors(ctx, processes)
	if err != nil {
		return err
	}
	early := e.settled(n)
	events := n - early
	before := e.backend.Mongo.CommandsByDatabase()
	m, err := e.measure(ctx, "projected", events, func() int { return e.settled(n) - early }, all...)
	if err != nil {
		return err
	}
	after := e.backend.Mongo.CommandsByDatabase()
	if err := e.pipeline.Stop(ctx); err != nil {
		return err
	}
	name := plural(processes, "process", "processes")
	commands := func(database string) float64 { return float64(after[database] - before[database]) }
	r.figures = append(r.figures,
		figure{name, unitRate, m.rate},
		figure{name + ", to the read models", "commands/event", commands(harness.ReadModelsDatabase) / float64(events)},
		figure{name + ", to the state database", "commands/s for each process", commands(harness.StateDatabase) / m.took.Seconds() / float64(processes)},
	)
	for _, c := range m.costs {
		c.service = fmt.Sprintf("%s ×%d", c.service, processes)
		r.costs = append(r.costs, c)
	}
	return e.check(ctx, w, nil)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
