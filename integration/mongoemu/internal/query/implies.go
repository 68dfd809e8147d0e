package query

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
)

// Implies reports whether every document that m matches is also matched by filter.
// It may report false although that holds: a planner then passes over a partial
// index, which costs time only.
func (m *Matcher) Implies(filter *Matcher) bool {
	return collation.Equal(m.Collation(), filter.Collation()) && implies(m.root, filter.root)
}

func implies(known, wanted Node) bool {
	switch w := wanted.(type) {
	case *And:
		return !slices.ContainsFunc(w.Children, func(c Node) bool { return !implies(known, c) })
	case *Or:
		if slices.ContainsFunc(w.Children, func(c Node) bool { return implies(known, c) }) {
			return true
		}
	}
	switch k := known.(type) {
	case *And:
		return slices.ContainsFunc(k.Children, func(c Node) bool { return implies(c, wanted) })
	case *Or:
		return len(k.Children) > 0 && !slices.ContainsFunc(k.Children, func(c Node) bool { return !implies(c, wanted) })
	case *In:
		if k.HasRegex() || len(k.Values) == 0 {
			return false
		}
		return !slices.ContainsFunc(k.Values, func(v bsonraw.Value) bool {
			c := newCompare(k.Path, EQ, v)
			c.Key, c.collation = k.collation.Value(v), k.collation
			return !compareImplies(c, wanted)
		})
	case *Compare:
		return compareImplies(k, wanted)
	case *leaf:
		w, ok := wanted.(*leaf)
		return ok && k.source != nil && slices.Equal(k.path, w.path) && slices.Equal(k.source, w.source)
	}
	return false
}

// compareImplies reports whether one comparison decides a condition on the same
// path. An array satisfies a comparison by any one element, so two comparisons are
// only related if they are about the same element: each must allow a superset.
func compareImplies(k *Compare, wanted Node) bool {
	switch w := wanted.(type) {
	case *Compare:
		return slices.Equal(k.Path, w.Path) && rangeWithin(k, w)
	case *In:
		return slices.Equal(k.Path, w.Path) && k.Op == EQ && k.Operand.Type != bsoncore.TypeArray && w.holds(k.Operand)
	case *leaf:
		if !slices.Equal(k.Path, w.path) || bsonraw.IsNullish(k.Operand) || len(w.source) == 0 {
			return false
		}
		if w.exists {
			return k.Operand.Type != bsoncore.TypeMinKey && k.Operand.Type != bsoncore.TypeMaxKey
		}
		return k.Op == EQ && k.Operand.Type != bsoncore.TypeArray && !bsonraw.IsNumber(k.Operand) && w.test(k.Operand)
	}
	return false
}

// rangeWithin reports whether every value in k's range is in w's.
func rangeWithin(k, w *Compare) bool {
	if bsonraw.Canonical(k.Key.Type) != bsonraw.Canonical(w.Key.Type) ||
		bsonraw.IsNaN(k.Key) || bsonraw.IsNaN(w.Key) || k.Key.Type == bsoncore.TypeArray {
		return k.Op == w.Op && bsonraw.Identical(k.Key, w.Key)
	}
	c := bsonraw.Compare(k.Key, w.Key)
	switch w.Op {
	case EQ:
		return k.Op == EQ && c == 0
	case GT:
		return k.Op == GT && c >= 0 || (k.Op == EQ || k.Op == GTE) && c > 0
	case GTE:
		return (k.Op == GT || k.Op == EQ || k.Op == GTE) && c >= 0
	case LT:
		return k.Op == LT && c <= 0 || (k.Op == EQ || k.Op == LTE) && c < 0
	}
	return (k.Op == LT || k.Op == EQ || k.Op == LTE) && c <= 0
}
