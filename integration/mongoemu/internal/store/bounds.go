package store

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// interval is the range of keys from lo to before hi. An empty hi means no upper bound.
type interval struct{ lo, hi string }

var everything = interval{}

// successor returns the least string after all strings that start with prefix, or an
// empty string if there is none.
func successor(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// invert returns the interval of the inverted keys.
func (v interval) invert() interval {
	flip := func(s string) string {
		b := []byte(s)
		bsonraw.Invert(b)
		return string(b)
	}
	out := interval{}
	if v.hi != "" {
		out.lo = successor(flip(v.hi))
	}
	if v.lo != "" {
		out.hi = successor(flip(v.lo))
	}
	return out
}

func (v interval) under(prefix string) interval {
	out := interval{lo: prefix + v.lo}
	if v.hi == "" {
		out.hi = successor(prefix)
	} else {
		out.hi = prefix + v.hi
	}
	return out
}

// span is an interval of one field's keys. A point contains one key only, which is lo.
type span struct {
	interval
	point bool
}

// under returns the span as index keys after a prefix. For a point, it also returns the
// prefix for the next field.
func (s span) under(prefix string, desc bool) (interval, string) {
	if s.point {
		key := []byte(s.lo)
		if desc {
			bsonraw.Invert(key)
		}
		full := prefix + string(key)
		return interval{full, successor(full)}, full
	}
	v := s.interval
	if desc {
		v = v.invert()
	}
	return v.under(prefix), ""
}

// spansOf returns the keys of one field that can satisfy a condition, or nil if the
// condition does not bound them.
func spansOf(n query.Node) []span {
	switch n := n.(type) {
	case *query.Compare:
		if s, ok := compareSpan(n.Op, n.Key); ok {
			return []span{s}
		}
	case *query.In:
		if n.HasRegex() {
			return nil
		}
		spans := make([]span, 0, len(n.Keys))
		for _, v := range n.Keys {
			s, ok := compareSpan(query.EQ, v)
			if !ok {
				return nil
			}
			spans = append(spans, s)
		}
		return spans
	}
	return nil
}

// compareSpan returns the keys that can satisfy a comparison. ok is false if index keys
// cannot decide it, for example for an operand that an array as a whole can satisfy.
func compareSpan(op query.Op, operand bsonraw.Value) (span, bool) {
	switch operand.Type {
	case bsoncore.TypeArray, bsoncore.TypeUndefined, bsoncore.TypeMinKey, bsoncore.TypeMaxKey, bsoncore.TypeRegex, 0:
		return span{}, false
	}
	enc, err := bsonraw.AppendKey(nil, operand)
	if err != nil || bsonraw.IsNullish(operand) && op != query.EQ || bsonraw.IsNaN(operand) && op != query.EQ {
		return span{}, false
	}
	key := string(enc)
	bracket := key[:1]
	switch op {
	case query.EQ:
		return span{interval{key, successor(key)}, true}, true
	case query.GT:
		return span{interval{successor(key), successor(bracket)}, false}, true
	case query.GTE:
		return span{interval{key, successor(bracket)}, false}, true
	case query.LT:
		return span{interval{bracket, key}, false}, true
	}
	return span{interval{bracket, successor(key)}, false}, true
}

// maxIntervals bounds the number of intervals in a plan.
const maxIntervals = 100_000

// bounded holds the bounds that a filter sets on an index.
type bounded struct {
	intervals []interval
	equal     int  // number of leading fields fixed to one or more points
	fixed     int  // number of leading fields fixed to exactly one point
	ranged    bool // the field after them is bounded to a range
}

// bound returns the intervals of x that contain all documents matching the conjunction.
// ok is false if the conjunction does not bound x.
func (x *Index) bound(and *query.And) (bounded, bool) {
	b := bounded{}
	prefixes := []string{""}
	for i, part := range x.Parts {
		if x.Multikey && i > 0 {
			break
		}
		spans := x.fieldSpans(and, part)
		if spans == nil || len(prefixes)*len(spans) > maxIntervals {
			break
		}
		var intervals []interval
		var exact []string
		for _, p := range prefixes {
			for _, s := range spans {
				v, prefix := s.under(p, part.Desc)
				intervals = append(intervals, v)
				if s.point {
					exact = append(exact, prefix)
				}
			}
		}
		b.intervals = intervals
		if len(exact) < len(intervals) {
			b.ranged = true
			break
		}
		b.equal++
		if len(spans) == 1 && b.fixed == i {
			b.fixed++
		}
		prefixes = exact
	}
	if b.equal > 0 || b.ranged {
		b.intervals = merge(b.intervals)
		return b, true
	}
	return x.boundByOr(and)
}

// fieldSpans returns the keys that the conditions on one field allow. It intersects the
// conditions unless the index is multikey: different elements of an array can satisfy
// different conditions, so only one condition is used.
func (x *Index) fieldSpans(and *query.And, part KeyPart) []span {
	var best []span
	for _, n := range conjuncts(nil, and) {
		path := pathOf(n)
		if path == nil || !slices.Equal([]string(path), part.Path) {
			continue
		}
		spans := spansOf(n)
		if spans == nil || x.Sparse && containsNull(n) {
			continue
		}
		switch {
		case best == nil:
			best = spans
		case x.Multikey:
			if allPoints(spans) && !allPoints(best) {
				best = spans
			}
		default:
			best = intersect(best, spans)
		}
	}
	return best
}

func containsNull(n query.Node) bool {
	switch n := n.(type) {
	case *query.Compare:
		return bsonraw.IsNullish(n.Operand)
	case *query.In:
		return slices.ContainsFunc(n.Values, bsonraw.IsNullish)
	}
	return false
}

func allPoints(spans []span) bool {
	return !slices.ContainsFunc(spans, func(s span) bool { return !s.point })
}

func intersect(a, b []span) []span {
	out := []span{}
	for _, x := range a {
		for _, y := range b {
			v := interval{max(x.lo, y.lo), minEnd(x.hi, y.hi)}
			if v.hi == "" || v.lo < v.hi {
				out = append(out, span{v, x.point || y.point})
			}
		}
	}
	return out
}

func minEnd(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return min(a, b)
}

func conjuncts(out []query.Node, n query.Node) []query.Node {
	if and, ok := n.(*query.And); ok {
		for _, c := range and.Children {
			out = conjuncts(out, c)
		}
		return out
	}
	return append(out, n)
}

func pathOf(n query.Node) query.Path {
	switch n := n.(type) {
	case *query.Compare:
		return n.Path
	case *query.In:
		return n.Path
	}
	return nil
}

// boundByOr bounds x by a disjunction if each of its branches bounds x.
func (x *Index) boundByOr(and *query.And) (bounded, bool) {
	for _, n := range conjuncts(nil, and) {
		or, ok := n.(*query.Or)
		if !ok || len(or.Children) == 0 {
			continue
		}
		all := []interval{}
		for _, c := range or.Children {
			b, ok := x.bound(&query.And{Children: []query.Node{c}})
			if !ok {
				all = nil
				break
			}
			all = append(all, b.intervals...)
		}
		if all != nil {
			return bounded{intervals: merge(all), ranged: true}, true
		}
	}
	return bounded{}, false
}

// merge sorts intervals and joins those that overlap or touch.
func merge(vs []interval) []interval {
	slices.SortFunc(vs, func(a, b interval) int { return strings.Compare(a.lo, b.lo) })
	out := vs[:0]
	for _, v := range vs {
		if n := len(out); n > 0 && (out[n-1].hi == "" || v.lo <= out[n-1].hi) {
			if out[n-1].hi != "" && (v.hi == "" || v.hi > out[n-1].hi) {
				out[n-1].hi = v.hi
			}
			continue
		}
		out = append(out, v)
	}
	return out
}
