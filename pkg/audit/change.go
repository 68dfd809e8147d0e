package audit

import (
	"context"
	"io"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// Change is what a command is about to change.
type Change struct {
	// Flags are the command's: who, why, and whether to ask.
	Flags cli.Change
	// Command is the path of the command, such as "parked retry".
	Command string
	// What completes "This will …", with the number of what is changed.
	What string
	// In is where the answer comes from, nil without a terminal, and Out takes the
	// question.
	In  io.Reader
	Out io.Writer
}

// Confirmed asks whether to make a change, makes it, and records it. The error is
// [cli.ErrNotConfirmed] if the answer is no: nothing is changed or recorded then.
func (s *Store) Confirmed(ctx context.Context, c Change, do func(ctx context.Context) (map[string]int64, error)) error {
	if err := c.Flags.Confirm(ctx, c.In, c.Out, c.What); err != nil {
		return err
	}
	return s.Do(ctx, Entry{Who: c.Flags.Person(), Command: c.Command, What: c.What, Why: c.Flags.Why}, do)
}
