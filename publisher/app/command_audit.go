package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// auditCommand lists the changes that commands have made.
type auditCommand struct {
	audit.Listing
}

func (*auditCommand) validate(c *config.Config) error { return c.MongoDB.Check() }

func (c *auditCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	return c.Print(ctx, audit.NewStore(audit.In(s.state)), e.stdout, e.stderr)
}
