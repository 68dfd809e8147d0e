package filter

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// SQL is a compiled expression.
type SQL struct {
	source string
	root   node
}

// maxNesting limits the nesting of expressions, so that parsing cannot exhaust the stack.
const maxNesting = 200

// maxLength is the maximum length of an expression or an action, in characters
// (documented quota).
const maxLength = 1024

// Parameters are the values of an expression's parameters, by their names
// with the @: strings, booleans, int64, float64 and [time.Time].
type Parameters map[string]any

// Parse compiles an expression.
func Parse(source string, parameters Parameters) (*SQL, error) {
	p, err := newParser(source, parameters)
	if err != nil {
		return nil, err
	}

	root, err := p.or()
	if err != nil {
		return nil, err
	}

	if t := p.peek(); t.kind != end {
		return nil, fmt.Errorf("%w: unexpected %q", ErrSyntax, t.text)
	}

	if err := predicates(root); err != nil {
		return nil, err
	}

	return &SQL{source: source, root: root}, nil
}

// String returns the expression as it was written.
func (f *SQL) String() string { return f.source }

// Match reports whether the expression is true of a message.
func (f *SQL) Match(v *message.View) bool {
	b, ok := f.root.eval(v).(bool)

	return ok && b
}

type parser struct {
	tokens     []token
	parameters Parameters
	at         int
	depth      int
}

func newParser(source string, parameters Parameters) (*parser, error) {
	if n := utf8.RuneCountInString(source); n > maxLength {
		return nil, fmt.Errorf("%w: %d characters are over the limit of %d", ErrSyntax, n, maxLength)
	}

	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}

	return &parser{tokens: tokens, parameters: parameters}, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}

	return t
}

// keyword consumes the keyword k if it is next, and reports whether it was.
func (p *parser) keyword(k string) bool {
	if t := p.peek(); t.kind == word && strings.EqualFold(t.text, k) {
		p.at++

		return true
	}

	return false
}

// symbol consumes the symbol s if it is next, and reports whether it was.
func (p *parser) symbol(s string) bool {
	if t := p.peek(); t.kind == symbol && t.text == s {
		p.at++

		return true
	}

	return false
}

func (p *parser) expect(s string) error {
	if !p.symbol(s) {
		return fmt.Errorf("%w: %q instead of %q", ErrSyntax, p.peek().text, s)
	}

	return nil
}

func (p *parser) sum() (node, error) {
	left, err := p.product()

	for err == nil {
		op := p.peek()
		if op.kind != symbol || op.text != "+" && op.text != "-" {
			break
		}

		p.next()

		var right node

		if right, err = p.product(); err == nil {
			err = values(left, right)
		}

		left = &arithmetic{op: op.text[0], left: left, right: right}
	}

	return left, err
}

func (p *parser) product() (node, error) {
	left, err := p.unary()

	for err == nil {
		op := p.peek()
		if op.kind != symbol || op.text != "*" && op.text != "/" && op.text != "%" {
			break
		}

		p.next()

		var right node

		if right, err = p.unary(); err == nil {
			err = values(left, right)
		}

		left = &arithmetic{op: op.text[0], left: left, right: right}
	}

	return left, err
}

func (p *parser) unary() (node, error) {
	negate, signed := false, false

	for {
		switch {
		case p.symbol("-"):
			negate, signed = !negate, true
		case p.symbol("+"):
			signed = true
		default:
			n, err := p.primary()
			if err == nil && signed {
				err = values(n)
			}

			if negate {
				n = &arithmetic{op: '-', left: literal{int64(0)}, right: n}
			}

			return n, err
		}
	}
}

func (p *parser) primary() (node, error) {
	t := p.next()

	switch t.kind {
	case text:
		return literal{t.text}, nil
	case number:
		return numberLiteral(t.text)
	case parameter:
		value, given := p.parameters[t.text]
		if !given {
			return nil, fmt.Errorf("%w: parameter %s has no value", ErrSyntax, t.text)
		}

		if at, ok := value.(time.Time); ok {
			value = wire.Timestamp(at.UnixMilli())
		}

		return literal{normal(value)}, nil
	case quoted:
		return p.property(t)
	case word:
		switch strings.ToUpper(t.text) {
		case "TRUE":
			return literal{true}, nil
		case "FALSE":
			return literal{false}, nil
		case "NULL":
			return literal{}, nil
		}

		return p.property(t)
	case symbol:
		if t.text == "(" {
			n, err := p.or()
			if err != nil {
				return nil, err
			}

			return n, p.expect(")")
		}
	}

	return nil, fmt.Errorf("%w: unexpected %q", ErrSyntax, t.text)
}

func numberLiteral(s string) (node, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return literal{n}, nil
	}

	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !strings.ContainsAny(s, ".eE") { // an integer out of range
		return nil, fmt.Errorf("%w: number %q is out of range", ErrSyntax, s)
	}

	return literal{f}, nil
}
