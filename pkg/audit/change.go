package audit

import (
	"context"
	"io"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// Change is an intended change of a command.
type Change struct {
	// Flags are the command's: who, why, and whether to ask.
	Flags cli.Change
	// Command is the path of the command, such as "parked retry".
	Command string
	// What completes "This will …" and has the number of changed records.
	What string
	// The answer is read from In, which is nil without a terminal. The question is written
	// to Out.
	In  io.Reader
	Out io.Writer
}

// Confirmed asks for confirmation of a change, makes it, and records it. If the answer is
// no, the error is [cli.ErrNotConfirmed], and nothing is changed or recorded.
func (s *Store) Confirmed(ctx context.Context, c Change, do func(ctx context.Context) (map[string]int64, error)) error {
	if err := c.Flags.Confirm(ctx, c.In, c.Out, c.What); err != nil {
		return err
	}
	return s.Do(ctx, Entry{Who: c.Flags.Person(), Command: c.Command, What: c.What, Why: c.Flags.Why}, do)
}
