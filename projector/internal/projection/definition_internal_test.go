package projection

import "testing"

// Redefine returns the definition of a projection that [Compile] made, written again.
func Redefine(p *Projection) string { return define(p) }

func TestCollapse(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		" a  +  b ":                   "a+b",
		"a in b":                      "a in b",
		"x ? 'a  b' : \"c  \"":        "x?'a  b':\"c  \"",
		`r'\' + 'x  y'`:               `r'\'+'x  y'`,
		`'it\'s  // no' + b // why`:   `'it\'s  // no'+b`,
		"'''a\n  b'''  + c":           "'''a\n  b'''+c",
		"a // one\n + // two\n b":     "a+b",
		"has(state.`a  b`) && 1":      "has(state.`a  b`)&&1",
		"b'x  y' == payload . bytes ": "b'x  y'==payload.bytes",
		"'open":                       "'open",
	} {
		if got := collapse(source); got != want {
			t.Errorf("%q collapses to %q, want %q", source, got, want)
		}
	}
}
