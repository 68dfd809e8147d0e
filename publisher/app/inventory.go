package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/inventory"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// newInventory makes the counter of quarantine, topic and oplog. It runs beside the terms.
func (p *Publisher) newInventory(s *stores, topic inventory.Topic) (*inventory.Counter, error) {
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
	if errors.Is(err, mongox.ErrOplogHidden) {
		return r, false, fmt.Errorf("%w: %w", inventory.ErrRefused, err)
	}
	return inventory.Runway{Left: runway(begin.Time(), at), Complete: begin.Complete}, err == nil, err
}

// topicFill is an [inventory.Topic] that asks the administration API.
type topicFill struct {
	namespace *sbus.Namespace
	topic     string
}

// Fill asks for the topic's properties and for its size.
func (t topicFill) Fill(ctx context.Context) (size, most int64, err error) {
	client, err := t.namespace.NewAdministration()
	if errors.Is(err, sbus.ErrNoAdministration) {
		return 0, 0, fmt.Errorf("%w: %w", inventory.ErrRefused, err)
	}
	if err != nil {
		return 0, 0, err
	}
	properties, err := client.GetTopic(ctx, t.topic, nil)
	if err != nil {
		return 0, 0, refused(err)
	}
	running, err := client.GetTopicRuntimeProperties(ctx, t.topic, nil)
	if err != nil {
		return 0, 0, refused(err)
	}
	if properties == nil || running == nil {
		return 0, 0, fmt.Errorf("read the size of topic %s: it does not exist", t.topic)
	}
	return running.SizeInBytes, int64(value(properties.MaxSizeInMegabytes)) << 20, nil
}

// refused marks an error that means that the credentials lack a right.
func refused(err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if ok && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("%w: the credentials do not allow it: %w", inventory.ErrRefused, short(err))
	}
	return short(err)
}
