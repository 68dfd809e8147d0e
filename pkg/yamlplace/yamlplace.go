package yamlplace

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mistake is the reason why a file cannot be read.
type Mistake struct {
	// Line and Column start at 1. They are the place of the alias, or the start of the text of
	// the first line up to which the file cannot be read.
	Line, Column int
	// Message is the reason without its line, with the remedy.
	Message string
}

// prefix is what the parser's errors start with. Its line is the start of the surrounding
// block for many mistakes.
var prefix = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// Documents iterates over the YAML documents of a file. If the file is not YAML, or if its
// aliases repeat too many values, it ends with the mistake instead of a document. So a reader
// can follow each alias.
func Documents(data []byte) iter.Seq2[*yaml.Node, *Mistake] {
	return func(yield func(*yaml.Node, *Mistake) bool) {
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		var aliases repeated
		for {
			document := new(yaml.Node)
			switch err := decoder.Decode(document); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(nil, find(data, err))
				return
			}
			if mistake := aliases.count(document, nil); mistake != nil {
				yield(nil, mistake)
				return
			}
			if !yield(document, nil) {
				return
			}
		}
	}
}

// decode returns the first error of the documents in data; [io.EOF] if all are YAML.
func decode(data []byte) error {
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		if err := decoder.Decode(new(yaml.Node)); err != nil {
			return err
		}
	}
}

// Resolve returns the node to which an alias refers, or the node itself.
func Resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// List returns the elements of a list, or the node itself if it is no list.
func List(node *yaml.Node) []*yaml.Node {
	nodes := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		nodes = slices.Clone(node.Content)
	}
	for i, n := range nodes {
		nodes[i] = Resolve(n)
	}
	return nodes
}

// find returns the mistake behind err, the first error in data. It decodes some beginnings
// of data: about 17 times for a file of 100,000 lines.
func find(data []byte, err error) *Mistake {
	lines := bytes.SplitAfter(data, []byte("\n"))
	// All beginnings with the mistake fail like the whole. Others can fail in another way,
	// because they end within a text or a bracket.
	ends := make([]int, len(lines))
	end := 0
	for i, line := range lines {
		end += len(line)
		ends[i] = end
	}
	at := sort.Search(len(lines)-1, func(i int) bool { return decode(data[:ends[i]]).Error() == err.Error() })
	line := string(lines[at])
	text := strings.TrimLeft(line, " \t")
	indentation := line[:len(line)-len(text)]
	message := prefix.ReplaceAllString(err.Error(), "")
	if r := remedy(message, indentation); r != "" {
		message += " (" + r + ")"
	}
	return &Mistake{Line: at + 1, Column: len(indentation) + 1, Message: "not YAML: " + message}
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
