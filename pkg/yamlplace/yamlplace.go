package yamlplace

import (
	"bytes"
	"regexp"
	"sort"
	"strings"
)

// Mistake is the reason why a file is not YAML.
type Mistake struct {
	// Line and Column start at 1. They are the start of the text of the first line up to
	// which the file cannot be read.
	Line, Column int
	// Message is the error of the parser without its line, with the remedy.
	Message string
}

// prefix is what the parser's errors start with. Its line is the start of the surrounding
// block for many mistakes.
var prefix = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// Find returns the mistake behind err, the error of parse for data. It calls parse for some
// beginnings of data: about 17 times for a file of 100,000 lines.
func Find(data []byte, err error, parse func([]byte) error) Mistake {
	lines := bytes.SplitAfter(data, []byte("\n"))
	// All beginnings with the mistake fail like the whole. Others can fail in another way,
	// because they end within a text or a bracket.
	ends := make([]int, len(lines))
	end := 0
	for i, line := range lines {
		end += len(line)
		ends[i] = end
	}
	at := sort.Search(len(lines)-1, func(i int) bool {
		e := parse(data[:ends[i]])
		return e != nil && e.Error() == err.Error()
	})
	line := string(lines[at])
	text := strings.TrimLeft(line, " \t")
	indentation := line[:len(line)-len(text)]
	message := prefix.ReplaceAllString(err.Error(), "")
	if r := remedy(message, indentation); r != "" {
		message += " (" + r + ")"
	}
	return Mistake{Line: at + 1, Column: len(indentation) + 1, Message: message}
}

// remedy says what to do about an error of the parser; empty if the error says enough.
func remedy(message, indentation string) string {
	switch {
	case strings.Contains(indentation, "\t"):
		return "YAML is indented by spaces only: replace the tabs"
	case strings.Contains(message, "mapping values are not allowed"):
		return "the line is indented further than the key above it, or it has a second colon: a text with a colon needs quotes"
	case strings.Contains(message, "did not find expected '-' indicator"), strings.Contains(message, "did not find expected key"),
		strings.Contains(message, "could not find expected ':'"):
		return "indent the line exactly as its neighbours, and end each key with a colon"
	case strings.Contains(message, "did not find expected ',' or"), strings.Contains(message, "did not find expected node content"):
		return "close each bracket, and separate with commas; within braces, a text or an expression with one of ? [ { , needs quotes"
	case strings.Contains(message, "did not find expected whitespace or line break"):
		return "a text or an expression that starts with ! needs quotes"
	case strings.Contains(message, "unexpected end of stream"):
		return "close the quote"
	}
	return ""
}
