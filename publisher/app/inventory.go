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

// newInventory makes the counter of quarantine, topic and oplog. It runs beside the terms.
func (p *Publisher) newInventory(s *stores, topic inventory.Topic) *inventory.Counter {
	return inventory.New(inventory.Options{
		Quarantine: quarantine.NewRecords(s.state, p.config.Stream.Name),
		Topic:      topic,
		Oplog:      oplogRunway{s, p.config},
		Registerer: p.registry,
		Logger:     p.logger,
	})
}

// beside runs loop in a goroutine. stop ends the loop and waits until it has returned.
func beside(ctx context.Context, loop func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// oplogRunway measures how far the oplog reaches back before the checkpoint.
type oplogRunway struct {
	stores *stores
	config config.Config
}

func (o oplogRunway) Runway(ctx context.Context) (r inventory.Runway, ok bool, err error) {
	read, err := readCheckpoint(ctx, o.stores, o.config)
	if read == nil || err != nil {
		return r, false, err
	}
	at := watch.TimeOf(term.StreamPosition(read.Position))
	if at.IsZero() {
		return r, false, nil
	}
	begin, err := oplogBegin(ctx, o.stores)
	return inventory.Runway{Left: runway(begin.Time(), at), Complete: begin.Complete}, err == nil, err
}

// topicFill is an [inventory.Topic] that asks the administration API.
type topicFill struct {
	namespace *sbus.Namespace
	topic     string
}

// Fill asks for the topic's properties and for its size.
func (t topicFill) Fill(ctx context.Context) (size, limit int64, err error) {
	properties, err := t.namespace.Topic(ctx, t.topic)
	if err != nil {
		return 0, 0, err
	}
	size, err = t.namespace.TopicSize(ctx, t.topic)
	return size, int64(value(properties.MaxSizeInMegabytes)) << 20, err
}
