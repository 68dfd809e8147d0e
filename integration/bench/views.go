package bench

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// hotSessions is the number of aggregates, and so of sessions, that write one document.
const hotSessions = 50

const (
	titleProjection = "a projection of the same events: one document for each aggregate, no transaction"
	titleOnePod     = "the same sessions on one process"
)

// viewProjection makes of each aggregate a document, as a view makes a part of it.
const viewProjection = `
projections:
  - name: sales
    collection: sales
    aggregateType: Sale
    on:
      SaleBeganEvent: {set: {customer: payload.customer, cents: payload.cents}}
      SaleChangedEvent: {inc: {cents: payload.cents}}
`

// viewDefinition makes one document of all aggregates, with a part of each in it.
const viewDefinition = `
views:
  - name: sales
    collection: sales
    as: sales
    from:
      - aggregateType: Sale
        key: state.customer
        on:
          SaleBeganEvent: {set: {customer: payload.customer, cents: payload.cents}}
          SaleChangedEvent: {inc: {cents: payload.cents}}
    totals:
      cents: {sum: part.cents}
      count: {count: true}
`

// sales returns an event of each aggregate.
func sales(id int64, eventType string) []workload.Event {
	all := make([]workload.Event, hotSessions)
	for i := range all {
		all[i] = workload.Event{
			AggregateID: fmt.Sprintf("sale-%06d", i), AggregateType: "Sale", EventID: id, EventType: eventType, Timestamp: shopTime,
			Payload: bson.D{{Key: "customer", Value: "customer"}, {Key: "cents", Value: int64(1)}},
		}
	}
	return all
}

// viewHot measures a view with one document that many sessions of two processes write.
func viewHot() row {
	return row{
		name:  "view/hot",
		title: fmt.Sprintf("Both services, %d sessions on 2 processes that write one document of a view", hotSessions),
		measure: func(ctx context.Context, b *bench) (reading, error) {
			r, err := b.measureView(ctx, viewDefinition, 2, hotSessions/2)
			if err != nil || !b.Limits {
				return r, err
			}
			if err := b.viewLimit(ctx, &r, titleOnePod, viewDefinition); err != nil {
				return r, err
			}
			return r, b.viewLimit(ctx, &r, titleProjection, viewProjection)
		},
	}
}

// viewLimit adds what one process reaches in another form as a limit.
func (b *bench) viewLimit(ctx context.Context, r *reading, title, definition string) error {
	other, err := b.measureView(ctx, definition, 1, hotSessions)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	r.limits = append(r.limits, limit{figure: figure{title, unitRate, other.figures[0].value}, cpu: other.costs[0].cpu, allocs: other.costs[0].allocs})
	return nil
}

// measureView measures processes of some sessions each. The parts exist before the measurement.
func (b *bench) measureView(ctx context.Context, definition string, processes, sessions int) (_ reading, err error) {
	w := with{
		publisher: []string{"PENSTOCK_START=now"}, definition: definition,
		projector: []string{"PENSTOCK_REFOLD_RATE=0", fmt.Sprintf("PENSTOCK_SESSIONS=%d", sessions)},
	}
	e, err := b.newEnvironment(ctx, w)
	if err != nil {
		return reading{}, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.load(ctx, sales(1, "SaleBeganEvent")); err != nil {
		return reading{}, err
	}
	if err := e.goLive(ctx); err != nil {
		return reading{}, err
	}
	var changes []workload.Event
	for n := range b.scale.view / hotSessions {
		changes = append(changes, sales(int64(n+2), "SaleChangedEvent")...)
	}
	if err := e.load(ctx, changes); err != nil {
		return reading{}, err
	}
	// All processes are ready before the first message.
	all, err := e.startProjectors(ctx, processes)
	if err != nil {
		return reading{}, err
	}
	if _, err := e.pipeline.StartPublisher("publisher-0"); err != nil {
		return reading{}, err
	}
	before := e.backend.Mongo.CommandsByDatabase()[harness.ReadModelsDatabase]
	m, err := e.measure(ctx, "projected", len(changes), func() int { return e.settled(e.published()) }, all...)
	if err != nil {
		return reading{}, err
	}
	commands := e.backend.Mongo.CommandsByDatabase()[harness.ReadModelsDatabase] - before
	if err := e.pipeline.Stop(ctx); err != nil {
		return reading{}, err
	}
	r := reading{costs: m.costs, figures: []figure{
		{"", unitRate, m.rate}, {"commands to the read models", "commands/event", float64(commands) / float64(len(changes))},
	}}
	if definition == viewProjection {
		return r, nil
	}
	return r, e.checkView(ctx, hotSessions+len(changes))
}

// checkView compares the document of the view with the number of all events.
func (e *environment) checkView(ctx context.Context, events int) error {
	var found []struct{ Cents, Count int }
	cursor, err := e.client.Database(harness.ReadModelsDatabase).Collection("sales").Find(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("read the document of the view: %w", err)
	}
	if err := cursor.All(ctx, &found); err != nil {
		return fmt.Errorf("read the document of the view: %w", err)
	}
	if len(found) != 1 || found[0].Cents != events || found[0].Count != hotSessions {
		return fmt.Errorf("the documents of the view are %+v, not one of %d cents and %d sales", found, events, hotSessions)
	}
	return nil
}
