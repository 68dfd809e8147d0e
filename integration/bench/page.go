package bench

import (
	"fmt"
	"os"
	"strings"
)

// Marks in a Markdown file between which [Report.WriteInto] writes the table.
const (
	tableBegin = "<!-- bench -->"
	tableEnd   = "<!-- /bench -->"
)

// WriteInto replaces the text between the marks of a Markdown file by the table.
func (r *Report) WriteInto(path string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page for the table: %w", err)
	}
	before, rest, begins := strings.Cut(string(file), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %s and %s for the table", path, tableBegin, tableEnd)
	}
	if err := os.WriteFile(path, []byte(before+tableBegin+"\n"+r.table()+tableEnd+after), 0o600); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
