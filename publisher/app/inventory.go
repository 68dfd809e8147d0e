package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/inventory"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// newInventory makes the counter of quarantine and oplog. It runs beside the terms.
func (p *Publisher) newInventory(s *stores) *inventory.Counter {
	return inventory.New(inventory.Options{
		Quarantine: quarantine.NewRecords(s.state, p.config.Stream.Name).Count,
		Oplog:      func(ctx context.Context) (inventory.Runway, bool, error) { return measureRunway(ctx, s, p.config) },
		Registerer: p.registry,
		Logger:     p.logger,
	})
}

// measureRunway measures how far the oplog reaches back before the checkpoint. ok is false if
// there is no checkpoint, or if its time is unknown.
func measureRunway(ctx context.Context, s *stores, c config.Config) (r inventory.Runway, ok bool, err error) {
	read, err := readCheckpoint(ctx, s, c)
	if read == nil || err != nil {
		return r, false, err
	}
	at := watch.TimeOf(term.StreamPosition(read.Position))
	if at.IsZero() {
		return r, false, nil
	}
	begin, err := oplogBegin(ctx, s)
	return inventory.Runway{Left: at.Sub(begin.Time()), Complete: begin.Complete}, err == nil, err
}

// fill reads the size of the topic and its limit, in bytes.
func fill(ctx context.Context, namespace *sbus.Namespace, topic string) (size, limit int64, err error) {
	properties, err := namespace.Topic(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	size, err = namespace.TopicSize(ctx, topic)
	return size, int64(sbus.Value(properties.MaxSizeInMegabytes)) << 20, err
}
