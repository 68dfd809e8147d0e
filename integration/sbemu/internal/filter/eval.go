package filter

import (
	"bytes"
	"cmp"
	"math"
	"regexp"
	"strings"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// node is a part of an expression. Its value is nil (unknown), a bool, an int64, a
// float64, a string, or a value of another AMQP type, which can only be compared for
// equality.
type node interface {
	eval(v *message.View) any
}

type literal struct{ value any }

func (n literal) eval(*message.View) any { return n.value }

type property struct {
	name   string
	system bool
}

func (n *property) eval(v *message.View) any {
	if n.system {
		value, _ := v.System(n.name)

		return normal(value)
	}

	value, _ := v.Application(n.name)

	return normal(value)
}

// normal converts a property's value to the type in which it is compared.
func normal(v any) any {
	switch v := v.(type) {
	case wire.Symbol:
		return string(v)
	case float32:
		return float64(v)
	case wire.Timestamp:
		return int64(v)
	case uint64:
		if v > math.MaxInt64 {
			return float64(v)
		}
	}

	if n, ok := wire.Integer(v); ok {
		return n
	}

	return v
}

// logical is AND or OR over true, false and unknown.
type logical struct {
	or          bool
	left, right node
}

func (n *logical) eval(v *message.View) any {
	left, leftKnown := n.left.eval(v).(bool)
	if leftKnown && left == n.or {
		return n.or
	}

	right, rightKnown := n.right.eval(v).(bool)
	if rightKnown && right == n.or {
		return n.or
	}

	if !leftKnown || !rightKnown {
		return nil
	}

	return !n.or
}

type negation struct{ of node }

func (n *negation) eval(v *message.View) any {
	if b, ok := n.of.eval(v).(bool); ok {
		return !b
	}

	return nil
}

type isNull struct{ of node }

func (n *isNull) eval(v *message.View) any { return n.of.eval(v) == nil }

type comparison struct {
	op          string
	left, right node
}

func (n *comparison) eval(v *message.View) any {
	left, right := n.left.eval(v), n.right.eval(v)
	if left == nil || right == nil {
		return nil
	}

	order, ordered, equal := compare(left, right)

	switch n.op {
	case "=":
		return equal
	case "<>", "!=":
		return !equal
	}

	if !ordered {
		return nil
	}

	switch n.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

// compare returns the order of two values, whether they can be ordered, and whether they
// are equal. Numbers of all types compare with each other; values of different kinds are
// not equal.
func compare(a, b any) (order int, ordered, equal bool) {
	switch a := a.(type) {
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), true, a == b
		case float64:
			return cmp.Compare(float64(a), b), true, float64(a) == b
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, float64(b)), true, a == float64(b)
		case float64:
			return cmp.Compare(a, b), true, a == b
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true, a == b
		}
	case []byte:
		if b, ok := b.([]byte); ok {
			return bytes.Compare(a, b), true, bytes.Equal(a, b)
		}
	case bool:
		if b, ok := b.(bool); ok {
			return 0, false, a == b
		}
	case wire.UUID:
		if b, ok := b.(wire.UUID); ok {
			return 0, false, a == b
		}
	}

	return 0, false, false
}

type membership struct {
	of   node
	list []node
}

func (n *membership) eval(v *message.View) any {
	value := n.of.eval(v)
	if value == nil {
		return nil
	}

	unknown := false

	for _, e := range n.list {
		other := e.eval(v)
		if other == nil {
			unknown = true

			continue
		}

		if _, _, equal := compare(value, other); equal {
			return true
		}
	}

	if unknown {
		return nil
	}

	return false
}

type like struct {
	of      node
	pattern *regexp.Regexp
}

// newLike compiles a pattern: % matches any text, _ matches one character, and the
// character after the escape character matches itself.
func newLike(of node, pattern, escape string) *like {
	var b strings.Builder

	b.WriteString(`(?s)\A`)

	escaped := false

	for _, r := range pattern {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))

			escaped = false
		case escape != "" && string(r) == escape:
			escaped = true
		case r == '%':
			b.WriteString(".*")
		case r == '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}

	b.WriteString(`\z`)

	return &like{of: of, pattern: regexp.MustCompile(b.String())}
}

func (n *like) eval(v *message.View) any {
	s, ok := n.of.eval(v).(string)
	if !ok {
		return nil
	}

	return n.pattern.MatchString(s)
}

type arithmetic struct {
	op          byte
	left, right node
}

func (n *arithmetic) eval(v *message.View) any {
	left, right := n.left.eval(v), n.right.eval(v)

	if a, ok := left.(int64); ok {
		if b, ok := right.(int64); ok {
			return integers(n.op, a, b)
		}
	}

	a, aOK := float(left)
	b, bOK := float(right)

	if !aOK || !bOK {
		if s, ok := left.(string); ok && n.op == '+' {
			if t, ok := right.(string); ok {
				return s + t
			}
		}

		return nil
	}

	switch n.op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		if b == 0 {
			return nil
		}

		return a / b
	default:
		if b == 0 {
			return nil
		}

		return math.Mod(a, b)
	}
}

func integers(op byte, a, b int64) any {
	switch {
	case op == '+':
		return a + b
	case op == '-':
		return a - b
	case op == '*':
		return a * b
	case b == 0, b == -1 && a == math.MinInt64:
		return nil
	case op == '/':
		return a / b
	default:
		return a % b
	}
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}
