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

func (c *auditCommand) run(ctx context.Context, e *Environment) error {
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	return c.Print(ctx, audit.NewStore(audit.In(s.State)), e.stdout, e.stderr)
}
