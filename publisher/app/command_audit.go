package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/audit"
)

// auditCommand lists the changes that commands have made.
type auditCommand struct {
	audit.Listing
}

func (c *auditCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	return c.Print(ctx, audit.NewStore(audit.In(s.state)), e.stdout, e.stderr)
}
