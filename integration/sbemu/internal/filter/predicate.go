package filter

import "fmt"

func (p *parser) or() (node, error) {
	p.depth++
	defer func() { p.depth-- }()

	if p.depth > maxNesting {
		return nil, fmt.Errorf("%w: nested too deeply", ErrSyntax)
	}

	left, err := p.and()

	for err == nil && p.keyword("OR") {
		var right node

		if right, err = p.and(); err == nil {
			err = predicates(left, right)
		}

		left = &logical{or: true, left: left, right: right}
	}

	return left, err
}

func (p *parser) and() (node, error) {
	left, err := p.not()

	for err == nil && p.keyword("AND") {
		var right node

		if right, err = p.not(); err == nil {
			err = predicates(left, right)
		}

		left = &logical{left: left, right: right}
	}

	return left, err
}

func (p *parser) not() (node, error) {
	negate, given := false, false
	for p.keyword("NOT") {
		negate, given = !negate, true
	}

	n, err := p.predicate()
	if err == nil && given {
		err = predicates(n)
	}

	return negated(n, negate), err
}

// predicates refuses nodes that are not predicates: AND, OR and NOT take only predicates.
func predicates(nodes ...node) error {
	for _, n := range nodes {
		if !isPredicate(n) {
			return fmt.Errorf("%w: a value is not a condition", ErrSyntax)
		}
	}

	return nil
}

// values refuses predicates, which cannot be operands of arithmetic or comparisons.
func values(nodes ...node) error {
	for _, n := range nodes {
		if isPredicate(n) {
			return fmt.Errorf("%w: a condition is not a value", ErrSyntax)
		}
	}

	return nil
}

func isPredicate(n node) bool {
	switch n.(type) {
	case *logical, *negation, *isNull, *comparison, *membership, *like:
		return true
	default:
		return false
	}
}

// predicate reads a comparison, or a value or predicate in parentheses.
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
			if err == nil {
				err = values(left, right)
			}

			return &comparison{op: op, left: left, right: right}, err
		}
	}

	if p.keyword("IS") {
		negate := p.keyword("NOT")
		if !p.keyword("NULL") {
			return nil, fmt.Errorf("%w: %q instead of NULL", ErrSyntax, p.peek().text)
		}

		if _, ok := left.(*property); !ok {
			return nil, fmt.Errorf("%w: IS NULL needs a property", ErrSyntax)
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

	if err := values(left); err != nil {
		return nil, err
	}

	if err := p.expect("("); err != nil {
		return nil, err
	}

	for {
		e, err := p.sum()
		if err == nil {
			err = values(e)
		}

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

	return newLike(left, pattern.text, escape), values(left)
}
