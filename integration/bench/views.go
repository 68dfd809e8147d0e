package bench

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

const (
	// viewEvents is the number of events that each measured aggregate has, without the one that
	// makes its part before the measurement.
	viewEvents = 4
	// allSources is the number of sources of the view's document that has no parts in it.
	allSources = 100_000
	// hotSessions is the number of sessions that write one document.
	hotSessions = 50
)

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

// viewDefinition makes a document of the aggregates of a customer.
func viewDefinition(embedded bool) string {
	as := ""
	if embedded {
		as = "    as: sales\n"
	}
	return `
views:
  - name: sales
    collection: sales
` + as + `    from:
      - aggregateType: Sale
        key: state.customer
        on:
          SaleBeganEvent: {set: {customer: payload.customer, cents: payload.cents}}
          SaleChangedEvent: {inc: {cents: payload.cents}}
    totals:
      cents: {sum: part.cents}
      count: {count: true}
`
}

// viewLoad is the events of a row.
type viewLoad struct {
	// aggregates exist before the measurement. It measures a number of events of each of the
	// first changing ones.
	aggregates, changing, events int
	// sources is the number of aggregates of a document.
	sources int
}

// began are the events that make the parts before the measurement.
func (l viewLoad) began() []workload.Event {
	all := make([]workload.Event, l.aggregates)
	for i := range all {
		all[i] = l.event(i, 1, "SaleBeganEvent")
		all[i].Payload = append(all[i].Payload, bson.E{Key: "customer", Value: l.key(i / l.sources)})
	}
	return all
}

// changes are the events that are measured.
func (l viewLoad) changes() (all []workload.Event) {
	for n := range l.events {
		for i := range l.changing {
			all = append(all, l.event(i, int64(n+2), "SaleChangedEvent"))
		}
	}
	return all
}

func (viewLoad) event(i int, id int64, eventType string) workload.Event {
	return workload.Event{
		AggregateID: fmt.Sprintf("sale-%06d", i), AggregateType: "Sale", EventID: id, EventType: eventType,
		Timestamp: shopTime, Payload: bson.D{{Key: "cents", Value: int64(1)}},
	}
}

func (viewLoad) key(document int) string { return fmt.Sprintf("customer-%06d", document) }

// viewRows measure a view whose documents have few or many sources, and one document that many
// sessions of two processes write.
func viewRows() []row {
	rows := make([]row, 0, 5)
	for _, sources := range []int{1, 10, 1000, allSources} {
		embedded, form := sources < allSources, "all of them in it"
		if !embedded {
			form = "only their totals in it"
		}
		rows = append(rows, row{
			name:  fmt.Sprintf("view/%d", sources),
			title: fmt.Sprintf("Both services, a view with %s a document, %s", plural(sources, "source", "sources"), form),
			measure: func(ctx context.Context, b *bench) (reading, error) {
				changing := b.scale.view / viewEvents
				l := viewLoad{aggregates: max(changing, sources), changing: changing, events: viewEvents, sources: sources}
				r, err := b.measureView(ctx, l, viewDefinition(embedded), 1, 0)
				if err != nil || b.WithoutLimits {
					return r, err
				}
				return r, b.viewLimit(ctx, &r, titleProjection, l, viewProjection, 0)
			},
		})
	}
	return append(rows, row{
		name:  "view/hot",
		title: fmt.Sprintf("… %d sessions on 2 processes that write one document of a view", hotSessions),
		measure: func(ctx context.Context, b *bench) (reading, error) {
			l := viewLoad{aggregates: hotSessions, changing: hotSessions, events: b.scale.view / hotSessions, sources: hotSessions}
			r, err := b.measureView(ctx, l, viewDefinition(true), 2, hotSessions/2)
			if err != nil || b.WithoutLimits {
				return r, err
			}
			if err := b.viewLimit(ctx, &r, titleOnePod, l, viewDefinition(true), hotSessions); err != nil {
				return r, err
			}
			return r, b.viewLimit(ctx, &r, titleProjection, l, viewProjection, hotSessions)
		},
	})
}

// viewLimit adds what one process reaches in another form as a limit.
func (b *bench) viewLimit(ctx context.Context, r *reading, title string, l viewLoad, definition string, sessions int) error {
	other, err := b.measureView(ctx, l, definition, 1, sessions)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	r.limits = append(r.limits, limit{figure: figure{title, unitRate, other.figures[0].value}, cpu: other.costs[0].cpu, allocs: other.costs[0].allocs})
	return nil
}

// measureView measures processes of some sessions each; 0 is the default.
func (b *bench) measureView(ctx context.Context, l viewLoad, definition string, processes, sessions int) (_ reading, err error) {
	w := with{publisher: []string{"PENSTOCK_START=now"}, projector: []string{"PENSTOCK_REFOLD_RATE=0"}, definition: definition}
	if sessions > 0 {
		w.projector = append(w.projector, fmt.Sprintf("PENSTOCK_SESSIONS=%d", sessions))
	}
	e, err := b.newEnvironment(ctx, w)
	if err != nil {
		return reading{}, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.load(ctx, l.began()); err != nil {
		return reading{}, err
	}
	if err := e.goLive(ctx); err != nil {
		return reading{}, err
	}
	changes := l.changes()
	if err := e.load(ctx, changes); err != nil {
		return reading{}, err
	}
	var all []*harness.Process
	for i := range processes {
		p, err := e.pipeline.StartProjector(fmt.Sprintf("projector-%d", i))
		if err != nil {
			return reading{}, err
		}
		all = append(all, p)
	}
	// All processes are ready before the first message.
	if err := e.pipeline.AwaitReady(ctx); err != nil {
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
	return r, e.checkView(ctx, l)
}

// checkView compares each document of the view with the events.
func (e *environment) checkView(ctx context.Context, l viewLoad) error {
	cursor, err := e.client.Database(harness.ReadModelsDatabase).Collection("sales").Find(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("read the documents of the view: %w", err)
	}
	type document struct {
		ID           string `bson:"_id"`
		Cents, Count int
	}
	var found []document
	if err := cursor.All(ctx, &found); err != nil {
		return fmt.Errorf("read the documents of the view: %w", err)
	}
	want := make(map[string]document, len(found))
	for i := range l.aggregates {
		d := want[l.key(i/l.sources)]
		d.ID, d.Count, d.Cents = l.key(i/l.sources), d.Count+1, d.Cents+1
		if i < l.changing {
			d.Cents += l.events
		}
		want[d.ID] = d
	}
	for _, d := range found {
		if d != want[d.ID] {
			return fmt.Errorf("a document of the view is %+v, not %+v", d, want[d.ID])
		}
	}
	if len(found) != len(want) {
		return fmt.Errorf("there are %d documents of the view, not %d", len(found), len(want))
	}
	return nil
}
