package filter

import (
	"fmt"
	"strings"
)

// property reads a property whose first token was consumed.
func (p *parser) property(first token) (node, error) {
	name, system := first.text, false

	if isReserved(first) {
		return nil, fmt.Errorf("%w: unexpected %q", ErrSyntax, first.text)
	}

	if p.symbol(".") {
		t := p.next()
		if t.kind != word && t.kind != quoted || isReserved(t) {
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

// isReserved reports whether a token is a reserved word, which names a property only in
// brackets or quotes.
func isReserved(t token) bool {
	if t.kind != word {
		return false
	}

	switch strings.ToUpper(t.text) {
	case "AND", "OR", "NOT", "IN", "LIKE", "IS", "EXISTS", "ESCAPE", "NULL", "TRUE", "FALSE":
		return true
	default:
		return false
	}
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
