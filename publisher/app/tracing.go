package app

import (
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// trace opens the tracer of the process.
func (p *Publisher) trace(ctx context.Context) (err error) {
	service := tracing.Service{Name: appName, Version: cli.Version(), Instance: p.config.Election.Host()}
	if p.tracer, err = tracing.Open(ctx, p.config.Tracing, service, p.logger); err != nil {
		return fmt.Errorf("open tracing: %w", err)
	}
	return nil
}
