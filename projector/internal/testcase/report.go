package testcase

import (
	"fmt"
	"io"
	"strings"
)

// lines returns the failure as text: one line with the message, or one line for each
// difference.
func (f *Failure) lines() []string {
	subject := f.Subject
	if subject != "" {
		subject += ": "
	}
	if f.Message != "" {
		return []string{subject + f.Message}
	}
	want, got := "expected", "got"
	if f.Again {
		want, got = "in one batch", "event by event"
	}
	lines := make([]string, len(f.Differences))
	for i, d := range f.Differences {
		path := d.Path
		if path != "" {
			path += ": "
		}
		lines[i] = fmt.Sprintf("%s%s%s %s, %s %s", subject, path, want, d.Expected, got, d.Got)
	}
	return lines
}

// where returns where a failure is: the second fold, and the step of a case with several.
func (f *Failure) where() string {
	var parts []string
	if f.Again {
		parts = append(parts, "folded again, the result differs: the projection is no pure function of its events")
	}
	if f.Step > 0 {
		parts = append(parts, fmt.Sprintf("after step %d", f.Step))
	}
	return strings.Join(parts, ", ")
}

// Print writes the report of a failed case: the lines of all failures and notes. Above the failures
// of a step or of the second fold, it has a line that names it.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "FAIL %s:%d: %s\n", r.Case.File.Path, r.Case.Line, r.Case.Name)
	where := ""
	for i := range r.Failures {
		f := &r.Failures[i]
		if now := f.where(); now != where {
			where = now
			if now != "" {
				fmt.Fprintf(&b, "  %s:\n", now)
			}
		}
		for _, line := range f.lines() {
			fmt.Fprintf(&b, "    line %d: %s\n", f.Line, line)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "    note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
