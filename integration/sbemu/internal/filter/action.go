package filter

import (
	"fmt"
	"strings"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Action changes the application properties of a message that a rule selects. Its
// statements, SET name = expression and REMOVE name, run in order.
type Action struct{ statements []statement }

// maxStatements is the maximum number of statements in an action (documented quota).
const maxStatements = 32

type statement struct {
	name  string
	value node // nil: the property is removed
}

// ParseAction compiles an action.
func ParseAction(source string, parameters Parameters) (*Action, error) {
	p, err := newParser(source, parameters)
	if err != nil {
		return nil, err
	}

	a := &Action{}

	for p.peek().kind != end {
		s, err := p.statement()
		if err != nil {
			return nil, err
		}

		a.statements = append(a.statements, s)

		p.symbol(";")
	}

	if n := len(a.statements); n == 0 || n > maxStatements {
		return nil, fmt.Errorf("%w: an action has 1 to %d statements", ErrSyntax, maxStatements)
	}

	return a, nil
}

func (p *parser) statement() (statement, error) {
	set := p.keyword("SET")
	if !set && !p.keyword("REMOVE") {
		return statement{}, fmt.Errorf("%w: %q instead of SET or REMOVE", ErrSyntax, p.peek().text)
	}

	t := p.next()
	if t.kind != word && t.kind != quoted {
		return statement{}, fmt.Errorf("%w: %q for a property", ErrSyntax, t.text)
	}

	n, err := p.property(t)
	if err != nil {
		return statement{}, err
	}

	target, ok := n.(*property)
	if !ok || target.system {
		return statement{}, fmt.Errorf("%w: system properties cannot be changed here", ErrSyntax)
	}

	if !set {
		return statement{name: target.name}, nil
	}

	if err := p.expect("="); err != nil {
		return statement{}, err
	}

	value, err := p.sum()
	if err == nil {
		err = values(value)
	}

	return statement{name: target.name, value: value}, err
}

// Apply returns the message as the action changes it.
func (a *Action) Apply(m *message.Message) *message.Message {
	for _, s := range a.statements {
		properties := m.ApplicationProperties()

		var value any
		if s.value != nil {
			value = s.value.eval(message.NewView(m))
		}

		var changed wire.Map

		for _, p := range properties {
			if key, _ := wire.Text(p.Key); !strings.EqualFold(key, s.name) {
				changed = append(changed, p)
			}
		}

		if value != nil {
			changed = append(changed, wire.Pair{Key: s.name, Value: value})
		}

		m = m.ReplaceApplicationProperties(changed)
	}

	return m
}
