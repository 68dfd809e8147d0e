package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// inferCommand reads a sample of the event store and prints the section events of a file
// of projections.
type inferCommand struct {
	Events int `arg:"" optional:"" default:"1000" help:"How many of the oldest and how many of the newest events are read."`
}

// Validate checks the flags. kong calls it.
func (c *inferCommand) Validate() error {
	return config.CheckSample("<events>", c.Events)
}

func (c *inferCommand) needs() config.Part { return config.PartMongoDB | config.PartFields }

func (c *inferCommand) run(ctx context.Context, e *Environment) error {
	inference, err := e.infer(ctx, c.Events)
	if err != nil {
		return err
	}
	where := e.Config.MongoDB.Events()
	section, err := inference.YAML()
	if err != nil {
		return fmt.Errorf("%s, collection %s: %w", where, where.Collection, err)
	}
	return e.print("section events", string(section))
}

// infer reads a sample of the event store: that many of its oldest and of its newest events.
func (e *Environment) infer(ctx context.Context, sample int) (*authoring.Inference, error) {
	s, err := config.OpenStores(e.Config.MongoDB, nil, e.Logger)
	if err != nil {
		return nil, err
	}
	defer s.Close(ctx)
	fields := e.Config.EventFields()
	events := eventstore.NewReader(s.Events, fields, e.Logger)
	if first := events.CheckFirstID(ctx); errors.Is(first, eventstore.ErrFirstID) {
		e.Logger.Warn().Err(first).Msg("the services do not start with this PENSTOCK_FIRST_EVENT_ID")
		fields.FirstEventID = 1 - fields.FirstEventID
		events = eventstore.NewReader(s.Events, fields, e.Logger)
	}
	inference := new(authoring.Inference)
	broken, last := 0, error(nil)
	err = events.Sample(ctx, sample, func(ev *event.Event, breaks error) {
		if breaks != nil {
			broken, last = broken+1, breaks
			return
		}
		inference.Add(ev)
	})
	if err != nil {
		return nil, fmt.Errorf("read a sample of %s: %w", e.Config.MongoDB.Events(), err)
	}
	if broken > 0 {
		e.Logger.Warn().Err(last).Int("events", broken).Msg("documents that break the event contract were left out; if they have other names of fields, set PENSTOCK_FIELD_*")
	}
	if types := inference.LeftOut(); len(types) > 0 {
		e.Logger.Warn().Strs("eventTypes", types).Msg("event types with \" | \" or * were left out, because a file of projections cannot name them; write a projection in Go for them")
	}
	return inference, nil
}
