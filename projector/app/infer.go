package app

import (
	"context"
	"fmt"
	"io"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// inferEvents reads a sample of the event store and writes the section events of a
// file of projections.
func inferEvents(ctx context.Context, c config.Config, out io.Writer, logger zerolog.Logger) error {
	s, err := open(c, logger)
	if err != nil {
		return err
	}
	defer s.close(ctx, logger)
	events, err := eventstore.NewReader(s.events, c.Fields, logger)
	if err != nil {
		return err
	}
	var inference project.Inference
	broken, err := events.Sample(ctx, c.Projections.InferEvents, inference.Add)
	if err != nil {
		return fmt.Errorf("read a sample of %s: %w", c.MongoDB.Events(), err)
	}
	if broken > 0 {
		logger.Warn().Int("events", broken).Msg("documents that break the event contract were left out; check PENSTOCK_FIELD_*")
	}
	section, err := inference.YAML()
	if err != nil {
		return fmt.Errorf("%s, collection %s: %w", c.MongoDB.Events(), c.MongoDB.Events().Collection, err)
	}
	if _, err := out.Write(section); err != nil {
		return fmt.Errorf("print the section events: %w", err)
	}
	return nil
}
