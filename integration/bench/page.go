package bench

import (
	"fmt"
	"os"
	"strings"
)

// Marks in a Markdown file between which [Report.WriteInto] writes the table and the short
// table.
const (
	tableBegin = "<!-- bench -->"
	tableEnd   = "<!-- /bench -->"
	shortBegin = "<!-- bench-short -->"
	shortEnd   = "<!-- /bench-short -->"
)

// WriteInto replaces the text between two marks of a Markdown file by the table or by the
// short table, depending on the marks.
func (r *Report) WriteInto(path string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the page for the table: %w", err)
	}
	text := string(file)
	full, isFull := between(text, tableBegin, tableEnd, r.table())
	short, isShort := between(text, shortBegin, shortEnd, r.short())
	switch {
	case isFull:
		text = full
	case isShort:
		text = short
	default:
		return fmt.Errorf("%s has no lines %s and %s, or %s and %s, for a table", path, tableBegin, tableEnd, shortBegin, shortEnd)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// between replaces the text between two marks by a table. It reports whether the text has
// both marks.
func between(text, begin, end, table string) (string, bool) {
	before, rest, found := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	return before + begin + "\n" + table + end + after, found && ends
}
