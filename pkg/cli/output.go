package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// OutputJSON is the value of [Output.Output] for JSON.
const OutputJSON = "json"

// Output are the flags of a command that lists or shows something. Embed it.
type Output struct {
	Output string `name:"output" enum:"table,json" default:"table" placeholder:"FORMAT" help:"How to print: table, for people, or json, with every field."`
}

// JSON reports whether the output must be JSON.
func (o Output) JSON() bool { return o.Output == OutputJSON }

// Field is a cell of a table or a line of a record: its name and its text.
type Field struct{ Name, Text string }

// List prints records, as a table or as one JSON array. On a terminal, all cells but the
// last ones are clipped in the middle: the last column has the error or the remedy. T must have JSON
// tags. fields returns the cells of a record; all records have the same columns. If there are
// no records, the array is empty and no table is printed: the caller says so on stderr.
func List[T any](w io.Writer, o Output, records []T, fields func(T) []Field) error {
	if o.JSON() {
		if records == nil {
			records = []T{}
		}
		return PrintJSON(w, records)
	}
	if len(records) == 0 {
		return nil
	}
	clips := IsTerminal(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for n, r := range records {
		columns := fields(r)
		names, cells := make([]string, len(columns)), make([]string, len(columns))
		for i, c := range columns {
			names[i], cells[i] = strings.ToUpper(c.Name), cell(c.Text, clips && i < len(columns)-1)
		}
		if n == 0 {
			fmt.Fprintln(table, strings.Join(names, "\t"))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// Show prints one record: one line for each field, not clipped, or one JSON object. Fields
// with an empty text have no line.
func Show(w io.Writer, o Output, record any, fields []Field) error {
	if o.JSON() {
		return PrintJSON(w, record)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f.Text != "" {
			fmt.Fprintf(table, "%s:\t%s\n", f.Name, Plain(f.Text))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the record: %w", err)
	}
	return nil
}

// PrintJSON prints a value as indented JSON.
func PrintJSON(w io.Writer, value any) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	if err == nil {
		_, err = io.WriteString(w, escape(text.String()))
	}
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// maxCell bounds the characters of a clipped cell.
const maxCell = 80

// cell formats a text for a cell of a table.
func cell(text string, clipped bool) string {
	text = Plain(text)
	if text == "" {
		return "-"
	}
	if runes := []rune(text); clipped && len(runes) > maxCell {
		return string(runes[:maxCell/2]) + "…" + string(runes[len(runes)-maxCell/2+1:])
	}
	return text
}

// Plain makes a text safe for one line of a terminal. Ids and errors come from events, so
// it removes control characters, and escapes those that change how others are shown, such as
// U+202E, which reverses a line.
func Plain(text string) string {
	return escape(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
}

// escape writes invisible characters in the form of JSON.
func escape(text string) string {
	if !strings.ContainsFunc(text, invisible) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !invisible(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// invisible reports whether a character is a mark of direction, a separator of lines or alike.
func invisible(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }

// Count writes a number with its noun: 1 aggregate, 2 aggregates.
func Count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Age formats how long ago at was. It returns an empty text for the zero time.
func Age(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return poll.Duration(max(now.Sub(at), 0).Truncate(time.Second))
}

// Time formats a time for tables: in UTC, to the second; empty for the zero time.
func Time(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
