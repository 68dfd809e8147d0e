package store

import (
	"slices"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Plan describes how a query reads its documents.
type Plan struct {
	// Index is the name of the index to scan; empty for a scan in natural order.
	Index     string
	intervals []interval
	reverse   bool
	// Sorted says that the scan returns the documents in the requested order.
	Sorted bool
	// Bounded says that the scan reads only a part of the index.
	Bounded bool
}

// Hint is the index or order that a client asks the query to use.
type Hint struct {
	Name    string
	Pattern []byte
	// Natural is 1 or -1 for a scan in natural order, 0 for none.
	Natural int
	// Min and Max bound the hinted index: the scan starts at Min and ends before Max.
	// Each contains all fields of the index; nil for no bound.
	Min, Max []byte
}

// Set reports whether there is a hint.
func (h Hint) Set() bool { return h.Name != "" || h.Pattern != nil || h.Natural != 0 }

// plan chooses the index with the highest score of planFor, or natural order if no index
// helps. A hint overrides the choice.
func (c *Collection) plan(m *query.Matcher, order []KeyPart, natural int, hint Hint) (Plan, error) {
	if (hint.Min != nil || hint.Max != nil) && hint.Name == "" && hint.Pattern == nil {
		return Plan{}, mongoerr.New(51173, "When using min()/max() a hint of which index to use must be provided")
	}
	if natural != 0 || hint.Natural != 0 {
		return Plan{reverse: natural < 0 || hint.Natural < 0, Sorted: len(order) == 0}, nil
	}
	if hint.Set() {
		x, err := c.hinted(hint)
		if err != nil {
			return Plan{}, err
		}
		if x.hashed() {
			return Plan{}, mongoerr.Lacking("a hint of the hashed index %s", x.Name)
		}
		p, _ := x.planFor(m, order)
		if hint.Min != nil || hint.Max != nil {
			v, err := x.between(hint.Min, hint.Max)
			if err != nil {
				return Plan{}, err
			}
			p.intervals, p.Bounded = []interval{v}, true
			p.Sorted, p.reverse = len(order) == 0, false
			if covered, reverse := x.covers(order, 0); covered {
				p.Sorted, p.reverse = true, reverse
			}
		}
		return p, nil
	}
	best, bestScore := Plan{Sorted: len(order) == 0}, 0
	for _, x := range c.indexes {
		if x.Hidden || x.hashed() { // a hashed index could only help with equality
			continue
		}
		if p, score := x.planFor(m, order); score > bestScore {
			best, bestScore = p, score
		}
	}
	return best, nil
}

func (c *Collection) hinted(hint Hint) (*Index, error) {
	for _, x := range c.indexes {
		if x.Hidden {
			continue
		}
		if hint.Name == x.Name || hint.Pattern != nil && bsonraw.CompareDocuments(hint.Pattern, x.Pattern) == 0 {
			return x, nil
		}
	}
	return nil, mongoerr.New(mongoerr.BadValue, "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index")
}

// between returns the interval from lo to before hi. Both contain all fields of the
// index.
func (x *Index) between(lo, hi []byte) (interval, error) {
	v := interval{}
	for i, bound := range [][]byte{lo, hi} {
		if bound == nil {
			continue
		}
		var row []bsonraw.Value
		for it := bsonraw.NewIter(bound); it.Next(); {
			if n := len(row); n >= len(x.Parts) || x.Parts[n].Field != string(it.Key()) {
				return v, errBounds()
			}
			row = append(row, it.Value())
		}
		if len(row) != len(x.Parts) {
			return v, errBounds()
		}
		key, err := x.encode(row)
		if err != nil {
			return v, err
		}
		if i == 0 {
			v.lo = string(key)
		} else {
			v.hi = string(key)
		}
	}
	if lo != nil && hi != nil && v.lo >= v.hi {
		return v, mongoerr.New(51175, "The value provided for min() does not come before the value provided for max() in the hinted index")
	}
	return v, nil
}

func errBounds() error {
	return mongoerr.New(51174, "The index chosen by the hint is not compatible with min/max: they must name all of its fields, in its order")
}

func (x *Index) planFor(m *query.Matcher, order []KeyPart) (Plan, int) {
	p := Plan{Index: x.Name, intervals: []interval{everything}}
	if !x.serves(m) {
		p.Sorted = len(order) == 0
		return p, 0
	}
	score := 0
	b, bounded := x.bound(m.Root())
	if bounded {
		p.intervals, p.Bounded = b.intervals, true
		score = 10 * b.equal
		if b.ranged {
			score += 5
		}
		if b.equal == len(x.Parts) && x.Unique {
			score += 1000
		}
	}
	switch covered, reverse := x.covers(order, b.fixed); {
	case len(order) == 0:
		p.Sorted = true
	case covered && !x.Sparse:
		p.Sorted, p.reverse = true, reverse
		score += 4
	}
	return p, score
}

// serves reports whether x can answer m: both have the same collation, and x contains
// every document that m matches. A partial index may lack some.
func (x *Index) serves(m *query.Matcher) bool {
	return collation.Equal(x.Collation, m.Collation()) && (x.partial == nil || m.Implies(x.partial))
}

// covers reports whether a scan of x returns the order, and whether the scan must run in
// reverse. The first fixed fields of x have one value each, so the order may skip them.
func (x *Index) covers(order []KeyPart, fixed int) (ok, reverse bool) {
	if x.Multikey || len(order) == 0 {
		return false, false
	}
	direction := 0
	i := 0
	for _, want := range order {
		for i < len(x.Parts) && i < fixed && !slices.Equal(x.Parts[i].Path, want.Path) {
			i++
		}
		if i >= len(x.Parts) || !slices.Equal(x.Parts[i].Path, want.Path) {
			return false, false
		}
		d := 1
		if x.Parts[i].Desc != want.Desc {
			d = -1
		}
		if i >= fixed {
			if direction != 0 && d != direction {
				return false, false
			}
			direction = d
		}
		i++
	}
	return true, direction < 0
}
