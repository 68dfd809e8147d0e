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

// Validate checks the flags. kong calls it.
func (l *Listing) Validate() error {
	if l.Limit < 1 || l.Limit > maxList {
		return fmt.Errorf("--limit is %d: use 1 to %d", l.Limit, maxList)
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
	return cli.List(stdout, l.Output, entries, func(e Entry) []cli.Field {
		return []cli.Field{
			{Name: "at", Text: cli.Time(e.At)},
			{Name: "who", Text: e.Who},
			{Name: "command", Text: e.Command},
			{Name: "what", Text: e.What},
			{Name: "outcome", Text: outcome(e)},
			{Name: "why", Text: e.Why},
		}
	})
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
