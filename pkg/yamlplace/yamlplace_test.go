package yamlplace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

func TestFindNamesTheLineAndTheRemedy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text         string
		line, column int
		remedy       string
	}{
		"indented further":   {"a:\n  - name: x\n    b: y\n     c: z\n    d: {e: 1}\n", 4, 6, "indented further"},
		"a second colon":     {"a: b: c\n", 1, 1, "a text with a colon needs quotes"},
		"indented less":      {"tests:\n  - name: a\n   id: p1\n    b: 1\n", 3, 4, "exactly as its neighbours"},
		"a tab":              {"a:\n  - name: x\n\tb: y\n", 3, 2, "by spaces only"},
		"an open brace":      {"a:\n  - {b: 1,\n     c: 2}\n  - {b: 1\n  - {b: 2}\nc: 3\n", 4, 3, "close each bracket"},
		"an open quote":      {"a: 1\nb: \"x\nc: 2\n", 2, 1, "close the quote"},
		"a key without end":  {"a: 1\nb\nc: 2\n", 2, 1, "end each key with a colon"},
		"a question mark":    {"a:\n  b: {c: x.?y}\n", 2, 3, "with one of ? [ { , needs quotes"},
		"an index":           {"a:\n  b: {c: x[0]}\n", 2, 3, "with one of ? [ { , needs quotes"},
		"a negation":         {"a:\n  b: {c: !x.y}\n", 2, 3, "starts with ! needs quotes"},
		"a lone indicator":   {"a: 1\nb: @x\n", 2, 1, ""},
		"the only line":      {"]", 1, 1, ""},
		"below a block text": {"a: |\n  x: y: z\n  \tq\n b: 1\n   c\nd: 1\n", 4, 2, ""},
	} {
		var got *yamlplace.Mistake
		for _, got = range yamlplace.Documents([]byte(test.text)) {
		}
		if got == nil {
			t.Fatalf("%s: the text is YAML", name)
		}
		if got.Line != test.line || got.Column != test.column || !strings.Contains(got.Message, test.remedy) || strings.HasPrefix(got.Message, "yaml:") {
			t.Errorf("%s: %d:%d: %s, not %d:%d with %q", name, got.Line, got.Column, got.Message, test.line, test.column, test.remedy)
		}
	}
}

// Documents refuses a file before a reader that follows the aliases needs gigabytes.
func TestAliasesThatRepeatTooManyValuesAreRefused(t *testing.T) {
	t.Parallel()
	doubling := func(lines int) string {
		text := "a0: &a0 [x, x]\n"
		for i := 1; i < lines; i++ {
			text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
		}
		return text
	}
	const tooMany = "the aliases of the file repeat more than 100000 values"
	for name, test := range map[string]struct {
		text, want string
		line       int
	}{
		"few":              {doubling(10), "", 0},
		"doubled 25 times": {doubling(25), tooMany, 15},
		"in documents":     {strings.Repeat("---\n"+doubling(12), 20), tooMany, 0},
		"in keys":          {doubling(10) + strings.Repeat("*a9 : 1\n", 100), tooMany, 0},
		"within itself":    {"a: &a {b: 1, c: {d: *a}}\n", tooMany, 1},
	} {
		var got *yamlplace.Mistake
		for _, got = range yamlplace.Documents([]byte(test.text)) {
		}
		switch {
		case (got == nil) != (test.want == ""), got != nil && !strings.Contains(got.Message, test.want), test.line > 0 && got.Line != test.line:
			t.Errorf("%s: %+v, not %q in line %d", name, got, test.want, test.line)
		}
	}
}

func TestEntriesLeaveOutWhatNoMappingHas(t *testing.T) {
	t.Parallel()
	const text = `{a: &v 1, &k b: *v, c: 3, *k : 4, a: 5, <<: {d: 6}, [e]: 7, ~: 8}`
	for document := range yamlplace.Documents([]byte(text)) {
		var problems strings.Builder
		entries, ok := yamlplace.Entries(document.Content[0], ": hint", func(at *yaml.Node, format string, args ...any) {
			fmt.Fprintf(&problems, "%d: "+format+"\n", append([]any{at.Column}, args...)...)
		})
		const want = `27: b is there twice
35: a is there twice
41: << does not merge: write the keys out, or name a whole value with &name and repeat it with *name: hint
53: a key is a text, not a list, a mapping or null: hint
61: a key is a text, not a list, a mapping or null: hint
`
		if problems.String() != want {
			t.Errorf("the problems are\n%s", &problems)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Key+e.Value.Value)
		}
		if !ok || !slices.Equal(got, []string{"a1", "b1", "c3"}) {
			t.Errorf("the entries are %v", got)
		}
		if entries, ok := yamlplace.Entries(entries[0].Value, "", nil); ok {
			t.Errorf("a number has the entries %v", entries)
		}
	}
}
