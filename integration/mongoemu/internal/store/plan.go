package store

import (
	"slices"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Plan is how a query reaches its documents.
type Plan struct {
	// Index is the index walked; empty for the documents in natural order.
	Index     string
	intervals []interval
	reverse   bool
	// Sorted says that the walk gives the order asked for.
	Sorted bool
	// Bounded says that the walk does not visit the whole index.
	Bounded bool
}

// Hint is what a client asks to be walked.
type Hint struct {
	Name    string
	Pattern []byte
	// Natural is 1 or -1 for a walk in natural order.
	Natural int
}

// Set reports whether there is a hint.
func (h Hint) Set() bool { return h.Name != "" || h.Pattern != nil || h.Natural != 0 }

// plan chooses the walk: by the index that fixes most fields, then by one that
// gives the order, else in natural order.
func (c *Collection) plan(m *query.Matcher, order []KeyPart, natural int, hint Hint) (Plan, error) {
	if natural != 0 || hint.Natural != 0 {
		return Plan{reverse: natural < 0 || hint.Natural < 0, Sorted: len(order) == 0}, nil
	}
	if hint.Set() {
		x, err := c.hinted(hint)
		if err != nil {
			return Plan{}, err
		}
		p, _ := x.planFor(m, order)
		return p, nil
	}
	best, bestScore := Plan{Sorted: len(order) == 0}, 0
	for _, x := range c.indexes {
		if p, score := x.planFor(m, order); score > bestScore {
			best, bestScore = p, score
		}
	}
	return best, nil
}

func (c *Collection) hinted(hint Hint) (*Index, error) {
	for _, x := range c.indexes {
		if hint.Name == x.Name || hint.Pattern != nil && bsonraw.CompareDocuments(hint.Pattern, x.Pattern) == 0 {
			return x, nil
		}
	}
	return nil, mongoerr.New(mongoerr.BadValue, "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index")
}

func (x *Index) planFor(m *query.Matcher, order []KeyPart) (Plan, int) {
	p := Plan{Index: x.Name, intervals: []interval{everything}}
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

// covers reports whether walking x, with its first fixed fields at one point,
// gives the order, and in which direction.
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
