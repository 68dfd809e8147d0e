package secret

import (
	"fmt"
	"strings"
)

// hidden is what a Text prints.
const hidden = "***"

// Text is a secret. All verbs of package fmt, JSON and logs print "***"; a conversion to string
// gives the secret.
type Text string

// Format implements [fmt.Formatter].
func (t Text) Format(state fmt.State, _ rune) {
	if t != "" {
		_, _ = fmt.Fprint(state, hidden)
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (t Text) MarshalText() ([]byte, error) { return fmt.Append(nil, t), nil }

// UnmarshalText removes the white space around the secret: a line break behind it usually comes
// from echo. It implements [encoding.TextUnmarshaler].
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text(strings.TrimSpace(string(text)))
	return nil
}

// FromFile sets the secret of a variable to the content of a file, whose path the variable with
// the suffix _FILE has. An empty path does nothing.
func (t *Text) FromFile(variable, path string) error {
	if path == "" {
		return nil
	}
	if *t != "" {
		return fmt.Errorf("%s_FILE is set beside %s: unset one of them", variable, variable)
	}
	content, err := Read(path)
	if err != nil {
		return fmt.Errorf("%s_FILE cannot be used: %w", variable, err)
	}
	*t = Text(content)
	return nil
}
