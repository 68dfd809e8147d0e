package query

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
)

// Node is one condition of a compiled filter. A planner derives index bounds from the
// exported kinds ([And], [Or], [Compare], [In]). It may ignore all others.
type Node interface {
	match(doc []byte, st *state) bool
}

// state holds the variables and the first error of an expression during a match.
type state struct {
	vars expr.Vars
	err  error
}

// And matches if all its children match. Without children it always matches.
type And struct{ Children []Node }

func (n *And) match(doc []byte, st *state) bool {
	for _, c := range n.Children {
		if !c.match(doc, st) {
			return false
		}
	}
	return true
}

// Or matches if one of its children matches.
type Or struct{ Children []Node }

func (n *Or) match(doc []byte, st *state) bool {
	for _, c := range n.Children {
		if c.match(doc, st) {
			return true
		}
	}
	return false
}

type not struct{ child Node }

func (n *not) match(doc []byte, st *state) bool { return !n.child.match(doc, st) }

type expression struct{ e expr.Expr }

func (n *expression) match(doc []byte, st *state) bool {
	v, err := n.e.Eval(doc, st.vars)
	if err != nil {
		if st.err == nil {
			st.err = err
		}
		return false
	}
	return bsonraw.Truthy(v)
}

// Op is a comparison operator.
type Op byte

// These are the comparison operators of [Compare].
const (
	EQ Op = iota
	LT
	LTE
	GT
	GTE
)

// Compare matches if a value at Path compares with Operand as Op says. Both must be in
// the same type bracket.
type Compare struct {
	Path    Path
	Op      Op
	Operand bsonraw.Value
	// Key is the value that is compared: the operand, or its sort key under a collation.
	Key       bsonraw.Value
	collation *collation.Collation
	test      func(bsonraw.Value) bool
}

func newCompare(path Path, op Op, operand bsonraw.Value) *Compare {
	c := &Compare{Path: path, Op: op, Operand: operand, Key: operand}
	c.test = c.holds
	return c
}

func (n *Compare) match(doc []byte, _ *state) bool {
	return n.Path.Walk(doc, true, n.test)
}

func (n *Compare) holds(v bsonraw.Value) bool {
	return compareHolds(n.collation.Value(v), n.Op, n.Key)
}

func compareHolds(v bsonraw.Value, op Op, operand bsonraw.Value) bool {
	if bsonraw.Canonical(v.Type) != bsonraw.Canonical(operand.Type) {
		switch {
		case bsonraw.IsNullish(v) && bsonraw.IsNullish(operand):
			return op != LT && op != GT
		case operand.Type == bsoncore.TypeMinKey:
			return op == GT || op == GTE
		case operand.Type == bsoncore.TypeMaxKey:
			return op == LT || op == LTE
		}
		return false
	}
	if bsonraw.IsNaN(v) || bsonraw.IsNaN(operand) {
		return op != LT && op != GT && bsonraw.IsNaN(v) && bsonraw.IsNaN(operand)
	}
	if op == EQ {
		return bsonraw.Equal(v, operand)
	}
	c := bsonraw.Compare(v, operand)
	switch op {
	case LT:
		return c < 0
	case LTE:
		return c <= 0
	case GT:
		return c > 0
	}
	return c >= 0
}

// In matches if a value at Path equals one of Values or matches one of the regular
// expressions.
type In struct {
	Path   Path
	Values []bsonraw.Value
	// Keys are the values that are compared: Values, or their sort keys under a
	// collation.
	Keys      []bsonraw.Value
	collation *collation.Collation
	regexes   []*regex
	exact     map[string]struct{}
	test      func(bsonraw.Value) bool
}

// HasRegex reports whether the condition contains regular expressions besides Values.
func (n *In) HasRegex() bool { return len(n.regexes) > 0 }

// newIn indexes long lists by encoded value. Values that cannot be encoded are compared
// one by one.
func newIn(path Path, values []bsonraw.Value, regexes []*regex) *In {
	n := &In{Path: path, Values: values, Keys: values, regexes: regexes}
	n.test = n.holds
	n.index()
	return n
}

func (n *In) index() {
	if len(n.Keys) <= 8 {
		return
	}
	n.exact = make(map[string]struct{}, len(n.Keys))
	for _, v := range n.Keys {
		key, err := bsonraw.AppendKey(nil, v)
		if err != nil {
			n.exact = nil
			return
		}
		n.exact[string(key)] = struct{}{}
	}
}

func (n *In) match(doc []byte, _ *state) bool { return n.Path.Walk(doc, true, n.test) }

func (n *In) holds(v bsonraw.Value) bool {
	for _, r := range n.regexes {
		if r.holds(v) {
			return true
		}
	}
	v = n.collation.Value(v)
	if n.exact != nil {
		var scratch [64]byte
		if key, err := bsonraw.AppendKey(scratch[:0], v); err == nil {
			_, ok := n.exact[string(key)]
			return ok
		}
	}
	for _, operand := range n.Keys {
		if compareHolds(v, EQ, operand) {
			return true
		}
	}
	return false
}

// leaf is any other condition on the values at a path.
type leaf struct {
	path   Path
	expand bool
	test   func(bsonraw.Value) bool
	// source is the operator and its operand, which [Matcher.Implies] compares; nil for
	// conditions that it does not compare.
	source []byte
	exists bool // the condition is $exists: true
}

func (n *leaf) match(doc []byte, _ *state) bool { return n.path.Walk(doc, n.expand, n.test) }

// elemMatch matches if one element of an array at the path matches.
type elemMatch struct {
	path  Path
	child Node // matches the element as a document
	value bool // child matches [wrap] of the element, for bare operators
}

func (n *elemMatch) match(doc []byte, st *state) bool {
	return n.path.Walk(doc, false, func(v bsonraw.Value) bool {
		if v.Type != bsoncore.TypeArray {
			return false
		}
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			e := it.Value()
			switch {
			case n.value:
				if n.child.match(wrap(e), st) {
					return true
				}
			case e.Type == bsoncore.TypeEmbeddedDocument, e.Type == bsoncore.TypeArray:
				if n.child.match(e.Data, st) {
					return true
				}
			}
		}
		return false
	})
}
