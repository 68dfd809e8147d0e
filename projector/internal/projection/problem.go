package projection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// LoadError lists all problems of a set of declarations.
type LoadError struct {
	// Problems are sorted by file and line.
	Problems []Problem
	// noFile is set if the only problem is a folder without a file of projections.
	noFile bool
}

// Is reports whether the only problem is a folder without a file ([ErrNoFile]).
func (e *LoadError) Is(target error) bool { return e.noFile && target == ErrNoFile }

func (e *LoadError) Error() string {
	var b strings.Builder
	if len(e.Problems) == 1 {
		b.WriteString("read projections: 1 problem")
	} else {
		fmt.Fprintf(&b, "read projections: %d problems", len(e.Problems))
	}
	for _, p := range e.Problems {
		b.WriteString("\n" + p.String())
	}
	return b.String()
}

// Problem is one problem of a declaration.
type Problem struct {
	File string
	// Line and Column start at 1; 0 if the problem concerns the whole file.
	Line, Column int
	// Projection, EventType and Key say where the problem is, as far as known. Key is a
	// word of the vocabulary, with its path if it has one.
	Projection, EventType, Key string
	Message                    string
	// Expression is the line of a CEL expression or of the file; empty if the problem
	// concerns the whole file. Caret is the position in it, in characters from 0.
	Expression string
	Caret      int
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
	for _, part := range []struct{ name, value string }{{"projection ", p.Projection}, {"", p.EventType}, {"", p.Key}} {
		if part.value != "" {
			b.WriteString(part.name + part.value + ": ")
		}
	}
	b.WriteString(p.Message)
	if p.Expression != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", p.Expression, strings.Repeat(" ", min(p.Caret, utf8.RuneCountInString(p.Expression))))
	}
	return b.String()
}

// sortProblems sorts problems by file, line and column.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
