package app

import (
	"context"

	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// runCommand is the service.
type runCommand struct{}

func (*runCommand) validate(c *config.Config) error { return c.Check() }

func (*runCommand) run(ctx context.Context, e *environment) error { return New(e.options).Run(ctx) }
