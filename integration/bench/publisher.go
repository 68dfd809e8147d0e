package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

const (
	// publisherConnections is the publisher's default number of connections.
	publisherConnections = 4

	titleSend   = "bare azservicebus: ready-made messages, full batches, no order, no checkpoint"
	titleStream = "bare change stream, read into memory"
	titleFind   = "bare find by the index, read into memory"
	titleBoth   = "both, one after the other on the same cores (calculated)"
)

// publisherSteady publishes the events of its change stream.
func publisherSteady() row {
	return row{
		name: "publisher/steady", title: "Publisher, from the change stream to acknowledged messages",
		measure: func(ctx context.Context, b *bench) (_ reading, err error) {
			e, err := b.newEnvironment(ctx, with{})
			if err != nil {
				return reading{}, err
			}
			defer func() { err = errors.Join(err, e.close()) }()
			// The checkpoint of this run is in the change stream, before all events.
			if err := e.startPublisher(ctx); err != nil {
				return reading{}, err
			}
			if err := e.pipeline.Stop(ctx); err != nil {
				return reading{}, err
			}
			return e.publish(ctx, b.scale.steady, titleStream, limitStream)
		},
	}
}

// publisherCatchUp publishes a stored history from its beginning.
func publisherCatchUp(events int) row {
	return row{
		name: fmt.Sprintf("publisher/catch-up-%d", events), title: fmt.Sprintf("Publisher, catching up %s stored events", number(float64(events))),
		measure: func(ctx context.Context, b *bench) (_ reading, err error) {
			e, err := b.newEnvironment(ctx, with{})
			if err != nil {
				return reading{}, err
			}
			defer func() { err = errors.Join(err, e.close()) }()
			return e.publish(ctx, events, titleFind, limitFind)
		},
	}
}

// maxLimitEvents bounds the messages that the limit prepares. With more of them, it would
// measure its garbage collector.
const maxLimitEvents = 200_000

// publish stores events, lets the publisher publish them, and measures the limits of
// reading and sending.
func (e *environment) publish(ctx context.Context, events int, readTitle, read string) (reading, error) {
	if err := e.load(ctx, shop.New(events, 1).Events); err != nil {
		return reading{}, err
	}
	var r reading
	s := e.specify(limitTopic)
	s.Events, s.Connections = events, publisherConnections
	sending := s
	sending.Events = min(events, maxLimitEvents)
	if err := e.limit(ctx, &r, titleSend, limitSend, sending); err != nil {
		return reading{}, err
	}
	p, err := e.pipeline.StartPublisher("publisher-0")
	if err != nil {
		return reading{}, err
	}
	m, err := e.measure(ctx, "published", events, e.published, p)
	if err != nil {
		return reading{}, err
	}
	r.figures = []figure{{"", unitRate, m.rate}}
	r.costs = m.costs
	if err := e.pipeline.Stop(ctx); err != nil {
		return reading{}, err
	}
	if err := e.limit(ctx, &r, readTitle, read, s); err != nil {
		return reading{}, err
	}
	r.limits = append(r.limits, oneAfterTheOther(r.limits)...)
	return r, nil
}

// oneAfterTheOther returns what the limits reach together if each event goes through all of
// them on the same cores. A publisher cannot exceed it when the cores are busy.
func oneAfterTheOther(limits []limit) []limit {
	if len(limits) == 0 {
		return nil
	}
	both := limit{figure: figure{name: titleBoth, unit: unitRate}}
	seconds := 0.0
	for _, l := range limits {
		seconds += 1 / l.value
		both.cpu, both.allocs = both.cpu+l.cpu, both.allocs+l.allocs
	}
	both.value = 1 / seconds
	return []limit{both}
}
