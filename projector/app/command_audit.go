package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/audit"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// auditCommand lists the changes that commands have made.
type auditCommand struct {
	cli.Output
	Command string `name:"command" placeholder:"NAME" help:"List changes of this command only, such as parked, or \"parked retry\"."`
	Limit   int    `name:"limit" default:"50" help:"Largest number of changes; the newest are listed."`
}

// Validate implements [cli.Validator].
func (c *auditCommand) Validate() error {
	if c.Limit < 1 || c.Limit > audit.Keep {
		return fmt.Errorf("--limit is %d: use 1 to %d", c.Limit, audit.Keep)
	}
	return nil
}

func (*auditCommand) needs() config.Part { return config.PartMongoDB }

func (c *auditCommand) run(ctx context.Context, e *environment) error {
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx, e.logger)
	entries, err := audit.NewStore(audit.In(s.state())).List(ctx, c.Command, c.Limit)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		fmt.Fprintln(e.stderr, "no changes")
	}
	return cli.List(e.stdout, c.Output, entries,
		cli.Column[audit.Entry]{Name: "at", Text: func(a audit.Entry) string { return cli.Time(a.At) }},
		cli.Column[audit.Entry]{Name: "who", Text: func(a audit.Entry) string { return a.Who }},
		cli.Column[audit.Entry]{Name: "command", Text: func(a audit.Entry) string { return a.Command }},
		cli.Column[audit.Entry]{Name: "what", Text: func(a audit.Entry) string { return a.What }},
		cli.Column[audit.Entry]{Name: "outcome", Text: outcome},
		cli.Column[audit.Entry]{Name: "why", Text: func(a audit.Entry) string { return a.Why }},
	)
}

// outcome is what became of a change, with its numbers.
func outcome(a audit.Entry) string {
	text := string(a.Outcome)
	if a.Error != "" {
		text += ": " + a.Error
	}
	for _, name := range slices.Sorted(maps.Keys(a.Counts)) {
		text += fmt.Sprintf(", %d %s", a.Counts[name], name)
	}
	return strings.TrimSpace(text)
}
