package filter

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrSyntax means that an expression is invalid or not supported.
var ErrSyntax = errors.New("invalid filter expression")

type kind int

const (
	end kind = iota
	word
	quoted // a name in [] or ""
	text
	number
	parameter // a name with @ before it
	symbol
)

type token struct {
	kind kind
	text string
}

// lex splits an expression into tokens.
func lex(s string) ([]token, error) {
	var out []token

	for {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
		if s == "" {
			return append(out, token{}), nil
		}

		t, n, err := next(s)
		if err != nil {
			return nil, err
		}

		out = append(out, t)
		s = s[n:]
	}
}

func next(s string) (token, int, error) {
	switch c := s[0]; {
	case c == '\'':
		t, n, err := delimited(s, '\'')

		return token{text, t}, n, err
	case c == '"':
		t, n, err := delimited(s, '"')

		return token{quoted, t}, n, err
	case c == '[':
		t, n, err := delimited(s, ']')

		return token{quoted, t}, n, err
	case c >= '0' && c <= '9' || c == '.' && len(s) > 1 && s[1] >= '0' && s[1] <= '9':
		n := numberLength(s)

		return token{number, s[:n]}, n, nil
	case c == '@' && wordLength(s[1:]) > 0:
		n := 1 + wordLength(s[1:])

		return token{parameter, s[:n]}, n, nil
	}

	if n := wordLength(s); n > 0 {
		return token{word, s[:n]}, n, nil
	}

	for _, op := range []string{"<>", "!=", "<=", ">=", "=", "<", ">", "(", ")", ",", ".", ";", "+", "-", "*", "/", "%"} {
		if strings.HasPrefix(s, op) {
			return token{symbol, op}, len(op), nil
		}
	}

	return token{}, 0, fmt.Errorf("%w: unexpected %q", ErrSyntax, s[:1])
}

// wordLength returns the length of the word that s begins with: a letter, then
// letters, digits and underscores.
func wordLength(s string) int {
	for i, r := range s {
		if !unicode.IsLetter(r) && (i == 0 || r != '_' && !unicode.IsDigit(r)) {
			return i
		}
	}

	return len(s)
}

// delimited reads a token that begins with a delimiter and ends with closing. A doubled
// closing delimiter is part of the text.
func delimited(s string, closing byte) (string, int, error) {
	var b strings.Builder

	for i := 1; i < len(s); i++ {
		if s[i] != closing {
			b.WriteByte(s[i])

			continue
		}

		if i+1 < len(s) && s[i+1] == closing {
			b.WriteByte(closing)

			i++

			continue
		}

		return b.String(), i + 1, nil
	}

	return "", 0, fmt.Errorf("%w: %q is not closed", ErrSyntax, s)
}

// numberLength returns the length of the number that s begins with: digits, optionally a
// fraction, optionally an exponent.
func numberLength(s string) int {
	n := 0

	digits := func() {
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
	}

	digits()

	if n < len(s) && s[n] == '.' {
		n++

		digits()
	}

	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		mark := n
		n++

		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}

		if from := n; from < len(s) {
			digits()
		}

		if c := s[n-1]; c < '0' || c > '9' {
			n = mark
		}
	}

	return n
}
