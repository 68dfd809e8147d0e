package query

import (
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
)

// collate makes the comparisons in a condition use a collation. Regular expressions,
// $type and $jsonSchema ignore the collation. $expr reads the collation from the
// matcher's variables.
func collate(n Node, c *collation.Collation) {
	switch n := n.(type) {
	case *And:
		collateAll(n.Children, c)
	case *Or:
		collateAll(n.Children, c)
	case *not:
		collate(n.child, c)
	case *elemMatch:
		collate(n.child, c)
	case *Compare:
		n.Key, n.collation = c.Value(n.Operand), c
	case *In:
		n.Keys = make([]bsonraw.Value, len(n.Values))
		for i, v := range n.Values {
			n.Keys[i] = c.Value(v)
		}
		n.collation = c
		n.index()
	}
}

func collateAll(nodes []Node, c *collation.Collation) {
	for _, n := range nodes {
		collate(n, c)
	}
}
