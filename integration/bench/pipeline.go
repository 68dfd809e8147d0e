package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// disturbed is a workload with events that disturb all others.
type disturbed struct {
	*workload.Workload
	// until is the last event that the read models of parked aggregates show; nil if none
	// is parked.
	until map[string]int64
	// hot is the aggregate whose events do not count; empty if there is none.
	hot string
	// parked is the number of events of parked aggregates.
	parked int
}

const (
	rowSteady = "pipeline/steady"

	titleWithout = "both services without it, before and after"
	titleShared  = "as many events without a hot aggregate: its events share the cores (calculated)"
)

// others returns the number of undisturbing events.
func (d disturbed) others() int {
	n := len(d.Events) - d.parked
	if d.hot != "" {
		n -= hotEvents(d)
	}
	return n
}

// pipelineRows measure both services together, without and with disturbances. The first
// figure of each row is the rate of all other events.
func pipelineRows() []row {
	return []row{
		{name: rowSteady, title: "Both services, from a stored backlog to read models", measure: func(ctx context.Context, b *bench) (reading, error) {
			return b.measureSteady(ctx)
		}},
		pipelineRow("pipeline/hot-aggregate", "… beside one hot aggregate with a fifth of all events", 0, addHot),
		pipelineRow("pipeline/idle-aggregates", "… beside 100,000 idle aggregates with read models", 1, nil),
		pipelineRow("pipeline/large-messages", "… with 200 KiB in 1 of 1,000 events", 0, addLarge),
		pipelineRow("pipeline/parked", "… while 1 % of the aggregates are parked", 0, addPoison),
	}
}

// pipelineRow measures the other events beside a disturbance. The steady figure is measured
// before and after it, so that load on the machine that rises or falls affects both
// equally. The limit is the mean of the two.
func pipelineRow(name, title string, idle int, disturb func(*workload.Workload) disturbed) row {
	return row{name: name, title: title, measure: func(ctx context.Context, b *bench) (reading, error) {
		// Reuse the steady measurement that followed the row before this one.
		before := b.steady
		b.steady = 0
		if before == 0 && b.Limits {
			steady, err := b.measureSteady(ctx)
			if err != nil {
				return reading{}, err
			}
			before = steady.figures[0].value
		}
		d := disturbed{Workload: shop.New(b.scale.pipeline, 1)}
		if disturb != nil {
			d = disturb(d.Workload)
		}
		r, err := b.measurePipeline(ctx, idle, d)
		if err != nil || !b.Limits {
			return r, err
		}
		after, err := b.measureSteady(ctx)
		if err != nil {
			return reading{}, err
		}
		steady := (before + after.figures[0].value) / 2
		r.limits = []limit{{figure: figure{titleWithout, unitRate, steady}}}
		if d.hot != "" {
			r.limits = append(r.limits, limit{figure: figure{titleShared, unitRate, steady * float64(d.others()) / float64(len(d.Events))}})
		}
		return r, nil
	}}
}

// measureSteady measures the undisturbed workload. The next row reuses the result.
func (b *bench) measureSteady(ctx context.Context) (reading, error) {
	b.steady = 0
	r, err := b.measurePipeline(ctx, 0, disturbed{Workload: shop.New(b.scale.pipeline, 1)})
	if err == nil {
		b.steady = r.figures[0].value
	}
	return r, err
}

// measurePipeline measures a workload in the default mode. Before, the store holds idle
// times the scale's idle aggregates.
func (b *bench) measurePipeline(ctx context.Context, idle int, d disturbed) (_ reading, err error) {
	// Idle aggregates are built from the event store at full speed, and are not on the
	// topic.
	e, err := b.newEnvironment(ctx, with{publisher: []string{"PENSTOCK_START=now"}, projector: []string{"PENSTOCK_REFOLD_RATE=0"}})
	if err != nil {
		return reading{}, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.load(ctx, idleAggregates(idle*b.scale.idle)); err != nil {
		return reading{}, err
	}
	if err := e.goLive(ctx); err != nil {
		return reading{}, err
	}
	return e.pipe(ctx, d)
}

// pipe stores a workload while the services are stopped, starts them, and measures until
// all other events are projected.
func (e *environment) pipe(ctx context.Context, d disturbed) (reading, error) {
	if err := e.load(ctx, d.Events); err != nil {
		return reading{}, err
	}
	projectors, err := e.startProjectors(ctx, 1)
	if err != nil {
		return reading{}, err
	}
	publisher, err := e.pipeline.StartPublisher("publisher-0")
	if err != nil {
		return reading{}, err
	}
	all := func() int {
		published := e.published()
		return e.settled(published)
	}
	others, done := d.others(), all
	if d.hot != "" {
		done = func() int { return all() - e.shown(ctx, "itemReadModels", d.hot) }
	}
	m, err := e.measure(ctx, "projected", others, done, slices.Insert(projectors, 0, publisher)...)
	if err != nil {
		return reading{}, err
	}
	if err := proc.Await(ctx, awaitPoll, "all messages to be settled", func() (bool, error) { return all() >= len(d.Events), nil }); err != nil {
		return reading{}, err
	}
	if err := e.pipeline.Stop(ctx); err != nil {
		return reading{}, err
	}
	return reading{figures: []figure{{"", unitRate, m.rate}}, costs: m.costs}, e.check(ctx, d.Workload, d.until)
}

// shown returns the last event of an aggregate that its read model shows.
func (e *environment) shown(ctx context.Context, collection, aggregate string) int {
	var model struct {
		Last int `bson:"lastEventId"`
	}
	found := e.client.Database(harness.ReadModelsDatabase).Collection(collection).FindOne(ctx, bson.D{{Key: "_id", Value: aggregate}})
	_ = found.Decode(&model) // 0 while there is none
	return model.Last
}

// idleAggregates returns n aggregates with one event each.
func idleAggregates(n int) []workload.Event {
	events := make([]workload.Event, n)
	for i := range events {
		events[i] = workload.Event{
			AggregateID: fmt.Sprintf("idle-%06d", i), AggregateType: "Item", EventID: 1, EventType: "ItemListedEvent",
			Timestamp: shopTime, Payload: bson.D{
				{Key: "sku", Value: "idle"}, {Key: "priceCents", Value: int64(100)}, {Key: "stock", Value: int64(1)},
			},
		}
	}
	return events
}

// hotAggregate is the one hot aggregate. One of every hotShare events belongs to it.
const (
	hotAggregate = "item-hot"
	hotShare     = 5
)

func addHot(w *workload.Workload) disturbed {
	d := disturbed{Workload: w, hot: hotAggregate}
	var events []workload.Event
	last := int64(0)
	for i, ev := range w.Events {
		events = append(events, ev)
		if i%(hotShare-1) != 0 {
			continue
		}
		last++
		hot := workload.Event{
			AggregateID: hotAggregate, AggregateType: "Item", EventID: last, EventType: "StockAdjustedEvent",
			Timestamp: ev.Timestamp, Payload: bson.D{{Key: "delta", Value: int64(1)}},
		}
		if last == 1 {
			hot.EventType = "ItemListedEvent"
			hot.Payload = bson.D{{Key: "sku", Value: "hot"}, {Key: "priceCents", Value: int64(100)}, {Key: "stock", Value: int64(1)}}
		}
		events = append(events, hot)
	}
	w.Events = events
	return d
}

func hotEvents(d disturbed) (n int) {
	for i := range d.Events {
		if d.Events[i].AggregateID == d.hot {
			n++
		}
	}
	return n
}

const (
	largeEvery = 1000
	largeBytes = 200 << 10
)

// addLarge enlarges some events. Standard topics accept messages of up to 256 KB.
func addLarge(w *workload.Workload) disturbed {
	note := bson.E{Key: "note", Value: strings.Repeat("x", largeBytes)}
	for i := largeEvery / 2; i < len(w.Events); i += largeEvery {
		w.Events[i].Payload = append(w.Events[i].Payload[:len(w.Events[i].Payload):len(w.Events[i].Payload)], note)
	}
	return disturbed{Workload: w}
}

// poisonEvery is the number of orders of which one cannot be projected. Most of the shop's
// aggregates are orders, with about 5 events each.
const poisonEvery = 70

// addPoison makes the first line of some orders an event that their projection cannot
// apply, and records where the read models of these orders stop.
func addPoison(w *workload.Workload) disturbed {
	d := disturbed{Workload: w, until: make(map[string]int64)}
	orders := 0
	for i := range w.Events {
		ev := &w.Events[i]
		if _, poisoned := d.until[ev.AggregateID]; poisoned {
			d.parked++
			continue
		}
		if ev.EventType != "ItemAddedToOrderEvent" || ev.EventID != 2 {
			continue
		}
		if orders++; orders%poisonEvery == 0 {
			ev.Payload = bson.D{{Key: "sku", Value: "poison"}, {Key: "quantity", Value: "many"}, {Key: "priceCents", Value: int64(1)}}
			d.until[ev.AggregateID] = ev.EventID - 1
			d.parked++
		}
	}
	return d
}
