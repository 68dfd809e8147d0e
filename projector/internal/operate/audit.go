package operate

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/audit"
)

// auditCommand lists the changes that commands have made.
type auditCommand struct {
	audit.Listing
}

func (c *auditCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return c.Print(ctx, audit.NewStore(audit.In(s.State)), e.stdout, e.stderr)
}
