package command

import (
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// collated is the collation that a command or a statement specifies. The zero value
// specifies none, so the collection's collation applies.
type collated struct {
	by    *collation.Collation
	given bool
}

func (c *collated) parse(v bsonraw.Value) (err error) {
	if !bsonraw.Empty(v.Data) {
		c.given = true
	}
	c.by, err = collation.Parse(v)
	return err
}

// collatedVars returns [Request.vars] with the collation of a query on a collection.
func (r *Request) collatedVars(e *Engine, ns store.Namespace, c collated) (expr.Vars, error) {
	vars := r.vars()
	vars.Collation = c.by
	if c.given {
		return vars, nil
	}
	return vars, e.Store.View(r.tx, func(v *store.Viewer) error {
		if coll := v.Collection(ns); coll != nil {
			vars.Collation = coll.Options.DefaultCollation()
		}
		return nil
	})
}

// compile compiles the filter of a query on a collection, and returns the variables that
// it uses.
func (r *Request) compile(e *Engine, ns store.Namespace, c collated, filter []byte) (*query.Matcher, expr.Vars, error) {
	vars, err := r.collatedVars(e, ns, c)
	if err != nil {
		return nil, vars, err
	}
	f, err := query.Compile(filter, vars)
	return f, vars, err
}
