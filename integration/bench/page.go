package bench

import (
	"fmt"
	"os"
	"strings"
)

// The lines of a Markdown file between which [Report.WriteInto] writes.
const (
	tableBegin = "<!-- bench -->"
	tableEnd   = "<!-- /bench -->"
)

// WriteInto replaces what stands between the two marks of a Markdown file by the table.
func (r *Report) WriteInto(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page for the table: %w", err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !found || !ends {
		return fmt.Errorf("%s has no lines %s and %s for the table", path, tableBegin, tableEnd)
	}
	written := before + tableBegin + "\n" + r.table() + tableEnd + after
	if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
