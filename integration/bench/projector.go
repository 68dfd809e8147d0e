package bench

import (
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// projectorConnections is the projector's default number of connections.
const projectorConnections = 4

const (
	titleReceive = "bare azservicebus: receive and complete the same messages"
	titleWrite   = "bare BulkWrite of the final read models"
)

// projectorBuckets projects a published history of few long sessions.
func projectorBuckets() row {
	return row{
		name: "projector/buckets", title: "Projector, 64 buckets, from the topic to durable read models",
		measure: func(ctx context.Context, b *bench) (_ reading, err error) {
			w := shop.New(b.scale.buckets, 1)
			e, err := b.published(ctx, w, inBuckets)
			if err != nil {
				return reading{}, err
			}
			defer func() { err = errors.Join(err, e.close()) }()
			s := e.specify(e.backend.Bus().Topic)
			s.Events, s.Connections, s.Slots = len(w.Events), projectorConnections, buckets
			var r reading
			if err := e.limit(ctx, &r, titleReceive, limitReceive, s); err != nil {
				return reading{}, err
			}
			if err := e.project(ctx, w, &r); err != nil {
				return reading{}, err
			}
			err = e.limit(ctx, &r, titleWrite, limitWrite, s)
			return r, err
		},
	}
}

// projectorAggregates projects a published history in the default mode.
func projectorAggregates() row {
	return row{
		name: "projector/aggregates", title: "Projector, a session for each aggregate of about 4 events",
		measure: func(ctx context.Context, b *bench) (_ reading, err error) {
			w := shop.New(b.scale.aggregates, 1)
			e, err := b.published(ctx, w, nil)
			if err != nil {
				return reading{}, err
			}
			defer func() { err = errors.Join(err, e.close()) }()
			var r reading
			err = e.project(ctx, w, &r)
			return r, err
		},
	}
}

// published returns an environment with live projections and a workload's messages, which
// wait on the projector's and on the limits' subscription.
func (b *bench) published(ctx context.Context, w *workload.Workload, publisher []string) (*environment, error) {
	e, err := b.newEnvironment(ctx, with{publisher: publisher, subscriptions: []string{limitSubscription}})
	if err != nil {
		return nil, err
	}
	if err := e.publishAll(ctx, w.Events); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *environment) publishAll(ctx context.Context, events []workload.Event) error {
	if err := e.goLive(ctx); err != nil {
		return err
	}
	if err := e.load(ctx, events); err != nil {
		return err
	}
	if _, err := e.pipeline.StartPublisher("publisher-0"); err != nil {
		return err
	}
	if err := proc.Await(ctx, awaitPoll, "all messages on the topic", func() (bool, error) { return e.published() >= len(events), nil }); err != nil {
		return err
	}
	return e.pipeline.Stop(ctx)
}

// project measures one projector until it has settled all messages.
func (e *environment) project(ctx context.Context, w *workload.Workload, r *reading) error {
	p, err := e.pipeline.StartProjector("projector-0")
	if err != nil {
		return err
	}
	n := len(w.Events)
	m, err := e.measure(ctx, "projected", n, func() int { return e.settled(n) }, p)
	if err != nil {
		return err
	}
	r.figures, r.costs = []figure{{"", unitRate, m.rate}}, m.costs
	if err := e.pipeline.Stop(ctx); err != nil {
		return err
	}
	return e.check(ctx, w, nil)
}
