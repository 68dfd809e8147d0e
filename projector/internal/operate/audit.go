package operate

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// auditCommand lists the changes that commands have made.
type auditCommand struct {
	audit.Listing
}

func (*auditCommand) needs() config.Part { return config.PartMongoDB }

func (c *auditCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return c.Print(ctx, audit.NewStore(audit.In(s.State)), e.stdout, e.stderr)
}
