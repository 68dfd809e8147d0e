package testcase

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problem is one problem of a test file.
type Problem struct {
	File string
	// Line and Column start at 1; 0 if the problem concerns the whole file.
	Line, Column int
	// Case is the name of the case; empty if the problem concerns no case.
	Case    string
	Message string
	// Source is the text of the line.
	Source string
}

// String returns the problem with its place, and below it the line with a mark.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Case != "" {
		b.WriteString("case " + p.Case + ": ")
	}
	b.WriteString(p.Message)
	if p.Source != "" {
		trimmed := strings.TrimLeft(p.Source, " \t")
		caret := p.Column - 1 - (utf8.RuneCountInString(p.Source) - utf8.RuneCountInString(trimmed))
		fmt.Fprintf(&b, "\n    %s\n    %s^", trimmed, strings.Repeat(" ", max(caret, 0)))
	}
	return b.String()
}
