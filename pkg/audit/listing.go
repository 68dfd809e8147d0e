package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Listing are the flags of a command that lists the audit. Embed it.
type Listing struct {
	cli.Output
	Command string `name:"command" placeholder:"NAME" help:"List changes of this command only. The name of a group lists the changes of all its commands."`
	Limit   int    `name:"limit" default:"50" help:"Largest number of changes; the newest are listed."`
}

// Validate implements [cli.Validator].
func (l *Listing) Validate() error {
	if l.Limit < 1 || l.Limit > keep {
		return fmt.Errorf("--limit is %d: use 1 to %d", l.Limit, keep)
	}
	return nil
}

// Print prints the chosen entries on stdout, the newest first. If there are none, it says
// so on stderr. It leaves out entries that cannot be read, and names one on stderr.
func (l *Listing) Print(ctx context.Context, s *Store, stdout, stderr io.Writer) error {
	entries, err := s.List(ctx, l.Command, l.Limit)
	switch {
	case errors.As(err, new(*mongox.UnreadableError)):
		fmt.Fprintf(stderr, "left out: %v\n", err)
	case err != nil:
		return err
	}
	if len(entries) == 0 {
		fmt.Fprintln(stderr, "no changes")
	}
	return cli.List(stdout, l.Output, entries,
		cli.Column[Entry]{Name: "at", Text: func(e Entry) string { return cli.Time(e.At) }},
		cli.Column[Entry]{Name: "who", Text: func(e Entry) string { return e.Who }},
		cli.Column[Entry]{Name: "command", Text: func(e Entry) string { return e.Command }},
		cli.Column[Entry]{Name: "what", Text: func(e Entry) string { return e.What }},
		cli.Column[Entry]{Name: "outcome", Text: outcome},
		cli.Column[Entry]{Name: "why", Text: func(e Entry) string { return e.Why }},
	)
}

// outcome formats the result of a change, with its numbers.
func outcome(e Entry) string {
	text := string(e.Outcome)
	if e.Error != "" {
		text += ": " + e.Error
	}
	for _, name := range slices.Sorted(maps.Keys(e.Counts)) {
		text += fmt.Sprintf(", %d %s", e.Counts[name], name)
	}
	return strings.TrimSpace(text)
}
