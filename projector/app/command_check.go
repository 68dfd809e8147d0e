package app

import (
	"context"
	"fmt"
	"io"

	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// checkCommand checks the configuration and the projections. Reading the command line
// has done all of that: there only remains to say so.
type checkCommand struct {
	Path string `arg:"" optional:"" help:"A file of projections, or a folder, to check instead of the configured ones. Then the rest of the configuration is not checked."`
}

func (c *checkCommand) needs() config.Part {
	if c.Path != "" {
		return 0
	}
	return config.PartAll
}

func (c *checkCommand) run(_ context.Context, e *environment) error {
	return c.report(e.stdout, e.projections)
}

func (c *checkCommand) report(stdout io.Writer, projections []*Projection) error {
	text := "the configuration is right, and so are its projections: %d\n"
	if c.Path != "" {
		text = "the projections are right: %d\n"
	}
	if _, err := fmt.Fprintf(stdout, text, len(projections)); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
