package bench

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// plainLoops measures plain loops for scale only. The services are not compared with them.
func plainLoops() row {
	return row{
		name: "plain-loops", about: 35 * time.Second, title: "For scale only: plain loops that send or receive one event and wait",
		measure: func(ctx context.Context, b *bench) (_ reading, err error) {
			e, err := b.published(ctx, shop.New(b.scale.growth, 1), nil)
			if err != nil {
				return reading{}, err
			}
			defer func() { err = errors.Join(err, e.close()) }()
			s := e.specify(limitTopic)
			s.Events, s.For = b.scale.growth, b.scale.loops
			var r reading
			sent, err := e.runLimit(ctx, plainPublisher, s)
			if err != nil {
				return reading{}, err
			}
			s.Bus.Topic = e.backend.Bus().Topic
			projected, err := e.runLimit(ctx, plainProjector, s)
			if err != nil {
				return reading{}, err
			}
			r.figures = []figure{
				{"publisher", unitRate, float64(sent.Events) / sent.Seconds},
				{"projector", unitRate, float64(projected.Events) / projected.Seconds},
			}
			return r, nil
		},
	}
}
