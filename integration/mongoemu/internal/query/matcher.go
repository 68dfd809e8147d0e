package query

import (
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
)

// Matcher is a compiled filter. It is safe for concurrent use.
type Matcher struct {
	root *And
	vars expr.Vars
}

// Compile compiles a filter. vars are the variables of $expr and the collation.
func Compile(filter []byte, vars expr.Vars) (*Matcher, error) {
	root, err := compileDocument(filter, true)
	if err != nil {
		return nil, err
	}
	if vars.Collation != nil {
		collate(root, vars.Collation)
	}
	return &Matcher{root: root, vars: vars}, nil
}

// Collation returns the collation of the filter; nil compares strings byte by byte.
func (m *Matcher) Collation() *collation.Collation { return m.vars.Collation }

// Conjunction returns a matcher that requires all of the conditions.
func Conjunction(nodes []Node, vars expr.Vars) *Matcher {
	return &Matcher{root: &And{Children: nodes}, vars: vars}
}

// Root returns the conjunction of all conditions.
func (m *Matcher) Root() *And { return m.root }

// All reports whether the filter matches every document.
func (m *Matcher) All() bool { return len(m.root.Children) == 0 }

// Match reports whether doc matches the filter. Only $expr can return an error.
func (m *Matcher) Match(doc []byte) (bool, error) {
	st := state{vars: m.vars}
	ok := m.root.match(doc, &st)
	if st.err != nil {
		return false, st.err
	}
	return ok, nil
}

// Equality is a field whose value a filter fixes.
type Equality struct {
	Path  Path
	Value bsonraw.Value
}

// Equalities returns the fields that the filter fixes, in the order of the filter. An
// upsert starts its document from them.
func (m *Matcher) Equalities() []Equality { return equalities(nil, m.root) }

func equalities(found []Equality, n Node) []Equality {
	switch n := n.(type) {
	case *And:
		for _, c := range n.Children {
			found = equalities(found, c)
		}
	case *Or:
		if len(n.Children) == 1 {
			found = equalities(found, n.Children[0])
		}
	case *Compare:
		if n.Op == EQ {
			found = append(found, Equality{Path: n.Path, Value: n.Operand})
		}
	case *In:
		if len(n.Values) == 1 && len(n.regexes) == 0 {
			found = append(found, Equality{Path: n.Path, Value: n.Values[0]})
		}
	}
	return found
}
