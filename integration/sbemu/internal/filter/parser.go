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

// maxNesting limits how deep expressions nest, so that parsing one cannot
// exhaust the stack.
const maxNesting = 200

// maxLength is how many characters an expression or an action has at most
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

// keyword consumes a keyword, if it is next.
func (p *parser) keyword(k string) bool {
	if t := p.peek(); t.kind == word && strings.EqualFold(t.text, k) {
		p.at++

		return true
	}

	return false
}

// symbol consumes a symbol, if it is next.
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

func (p *parser) or() (node, error) {
	p.depth++
	defer func() { p.depth-- }()

	if p.depth > maxNesting {
		return nil, fmt.Errorf("%w: nested too deeply", ErrSyntax)
	}

	left, err := p.and()

	for err == nil && p.keyword("OR") {
		var right node

		right, err = p.and()
		left = &logical{or: true, left: left, right: right}
	}

	return left, err
}

func (p *parser) and() (node, error) {
	left, err := p.not()

	for err == nil && p.keyword("AND") {
		var right node

		right, err = p.not()
		left = &logical{left: left, right: right}
	}

	return left, err
}

func (p *parser) not() (node, error) {
	negate := false
	for p.keyword("NOT") {
		negate = !negate
	}

	n, err := p.predicate()
	if negate {
		n = &negation{of: n}
	}

	return n, err
}

// predicate reads a comparison, or what stands alone as one.
func (p *parser) predicate() (node, error) {
	if p.keyword("EXISTS") {
		return p.exists()
	}

	left, err := p.sum()
	if err != nil {
		return nil, err
	}

	for _, op := range []string{"=", "<>", "!=", "<=", ">=", "<", ">"} {
		if p.symbol(op) {
			right, err := p.sum()

			return &comparison{op: op, left: left, right: right}, err
		}
	}

	if p.keyword("IS") {
		negate := p.keyword("NOT")
		if !p.keyword("NULL") {
			return nil, fmt.Errorf("%w: %q instead of NULL", ErrSyntax, p.peek().text)
		}

		return negated(&isNull{of: left}, negate), nil
	}

	negate := p.keyword("NOT")

	switch {
	case p.keyword("IN"):
		n, err := p.in(left)

		return negated(n, negate), err
	case p.keyword("LIKE"):
		n, err := p.like(left)

		return negated(n, negate), err
	case negate:
		return nil, fmt.Errorf("%w: %q instead of IN or LIKE", ErrSyntax, p.peek().text)
	default:
		return left, nil
	}
}

func negated(n node, negate bool) node {
	if negate {
		return &negation{of: n}
	}

	return n
}

func (p *parser) exists() (node, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}

	t := p.next()
	if t.kind != word && t.kind != quoted {
		return nil, fmt.Errorf("%w: EXISTS needs a property", ErrSyntax)
	}

	n, err := p.property(t)
	if err != nil {
		return nil, err
	}

	return &negation{of: &isNull{of: n}}, p.expect(")")
}

func (p *parser) in(left node) (node, error) {
	n := &membership{of: left}

	if err := p.expect("("); err != nil {
		return nil, err
	}

	for {
		e, err := p.sum()
		if err != nil {
			return nil, err
		}

		n.list = append(n.list, e)

		if !p.symbol(",") {
			return n, p.expect(")")
		}
	}
}

func (p *parser) like(left node) (node, error) {
	pattern := p.next()
	if pattern.kind != text {
		return nil, fmt.Errorf("%w: LIKE needs a pattern in quotes", ErrSyntax)
	}

	escape := ""

	if p.keyword("ESCAPE") {
		t := p.next()
		if t.kind != text || len([]rune(t.text)) != 1 {
			return nil, fmt.Errorf("%w: ESCAPE needs one character in quotes", ErrSyntax)
		}

		escape = t.text
	}

	return newLike(left, pattern.text, escape), nil
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

		right, err = p.product()
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

		right, err = p.unary()
		left = &arithmetic{op: op.text[0], left: left, right: right}
	}

	return left, err
}

func (p *parser) unary() (node, error) {
	negate := false

	for {
		switch {
		case p.symbol("-"):
			negate = !negate
		case p.symbol("+"):
		default:
			n, err := p.primary()
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
		case "AND", "OR", "NOT", "IN", "LIKE", "IS", "EXISTS", "ESCAPE":
			return nil, fmt.Errorf("%w: unexpected %q", ErrSyntax, t.text)
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

// property reads a property whose first token was consumed.
func (p *parser) property(first token) (node, error) {
	name, system := first.text, false

	if p.symbol(".") {
		t := p.next()
		if t.kind != word && t.kind != quoted {
			return nil, fmt.Errorf("%w: %q for a property", ErrSyntax, t.text)
		}

		switch scope := strings.ToLower(name); scope {
		case "sys":
			system = true
		case "user":
		default:
			return nil, fmt.Errorf("%w: unknown scope %q", ErrSyntax, name)
		}

		name = t.text
	}

	if p.peek().kind == symbol && p.peek().text == "(" {
		return nil, fmt.Errorf("%w: function %q is not supported", ErrSyntax, name)
	}

	if system && !isSystem(name) {
		return nil, fmt.Errorf("%w: unknown system property %q", ErrSyntax, name)
	}

	return &property{name: name, system: system}, nil
}

func isSystem(name string) bool {
	switch strings.ToLower(name) {
	case "messageid", "correlationid", "sessionid", "replytosessionid", "to", "replyto",
		"label", "subject", "contenttype", "partitionkey", "userid":
		return true
	default:
		return false
	}
}
