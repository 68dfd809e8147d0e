package projection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// loadError lists all problems of a set of declarations.
type loadError struct {
	// problems are sorted by file and line.
	problems []Problem
	// noFile is set if the only problem is a folder without a file of projections.
	noFile bool
}

// Is reports whether the only problem is a folder without a file ([ErrNoFile]).
func (e *loadError) Is(target error) bool { return e.noFile && target == ErrNoFile }

func (e *loadError) Error() string {
	var b strings.Builder
	if len(e.problems) == 1 {
		b.WriteString("read projections: 1 problem")
	} else {
		fmt.Fprintf(&b, "read projections: %d problems", len(e.problems))
	}
	for _, p := range e.problems {
		b.WriteString("\n" + p.String())
	}
	return b.String()
}

// Problem is one problem of a file that an author writes.
type Problem struct {
	File string
	// Line and Column start at 1; 0 if the problem concerns the whole file.
	Line, Column int
	// Where says where in the file the problem is, as far as known.
	Where   []string
	Message string
	// source is the line of a CEL expression or of the file; empty if the problem concerns
	// the whole file. caret is the position in it, in characters from 0.
	source string
	caret  int
}

// Show shows the line of the problem, without its indentation.
func (p *Problem) Show(lines []string) {
	if p.Line < 1 || p.Line > len(lines) {
		return
	}
	line := lines[p.Line-1]
	text := strings.TrimLeft(line, " \t")
	p.source, p.caret = strings.TrimRight(text, " \r"), max(0, p.Column-1-(len(line)-len(text)))
}

// String returns the problem on one line that starts with file:line:column. If the place
// is known, two more lines show it.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	for _, part := range p.Where {
		b.WriteString(part + ": ")
	}
	b.WriteString(p.Message)
	if p.source != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", p.source, strings.Repeat(" ", min(p.caret, utf8.RuneCountInString(p.source))))
	}
	return b.String()
}

// SortProblems sorts problems by file, line and column.
func SortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
