package project

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// LoadError is everything that is wrong with a set of declarations.
type LoadError struct {
	// Problems stand in the order of their files and lines.
	Problems []Problem
	// noFile is whether all that is wrong is a folder without a file.
	noFile bool
}

// Is reports whether all that is wrong is that a folder is empty ([ErrNoFile]).
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

// Problem is one thing wrong with a declaration.
type Problem struct {
	File string
	// Line and Column start at 1; 0 if the whole file is meant.
	Line, Column int
	// Projection, EventType and Key say where, as far as they are known. Key is the
	// word of the vocabulary, with a path where it takes one.
	Projection, EventType, Key string
	Message                    string
	// Expression is the line of a CEL expression, or of the file, that Caret points into,
	// counted in characters from 0; empty if the whole file is meant.
	Expression string
	Caret      int
}

// String is the problem on one line that starts with file:line:column, followed by
// two more that show the place in its line.
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

// sortProblems puts problems in the order in which their author reads.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
