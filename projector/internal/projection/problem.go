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

// Problem is one problem of a declaration.
type Problem struct {
	file string
	// line and column start at 1; 0 if the problem concerns the whole file.
	line, column int
	// projection, eventType and key say where the problem is, as far as known. key is a
	// word of the vocabulary, with its path if it has one.
	projection, eventType, key string
	message                    string
	// expression is the line of a CEL expression or of the file; empty if the problem
	// concerns the whole file. caret is the position in it, in characters from 0.
	expression string
	caret      int
}

// String returns the problem on one line that starts with file:line:column. If the place
// is known, two more lines show it.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.file)
	if p.line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.line, p.column)
	}
	b.WriteString(": ")
	for _, part := range []struct{ name, value string }{{"projection ", p.projection}, {"", p.eventType}, {"", p.key}} {
		if part.value != "" {
			b.WriteString(part.name + part.value + ": ")
		}
	}
	b.WriteString(p.message)
	if p.expression != "" {
		fmt.Fprintf(&b, "\n    %s\n    %s^", p.expression, strings.Repeat(" ", min(p.caret, utf8.RuneCountInString(p.expression))))
	}
	return b.String()
}

// sortProblems sorts problems by file, line and column.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
}
