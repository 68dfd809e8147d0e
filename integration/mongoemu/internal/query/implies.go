package query

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
)

// Implies reports whether filter matches every document that m matches. It may return
// false for a pair where this holds. The planner then skips a partial index, which only
// costs time.
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

// compareImplies reports whether a comparison implies a condition on the same path. One
// element of an array is enough to satisfy a comparison, and two comparisons may be
// satisfied by different elements. Each wanted condition must therefore follow from one
// known comparison alone.
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

// rangeWithin reports whether the range of k is within the range of w.
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
