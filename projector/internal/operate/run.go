package operate

import (
	"context"

	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// runCommand is the service.
type runCommand struct{}

func (*runCommand) needs() config.Part { return config.PartAll }

func (*runCommand) run(ctx context.Context, e *Environment) error { return e.Serve(ctx) }
