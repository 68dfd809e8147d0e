package aggregate

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// field is one accumulated output field of a $group.
type field struct {
	name string
	op   string
	arg  expr.Expr
}

type grouping struct {
	id     expr.Expr
	fields []field
	vars   expr.Vars
	groups map[string]*group
	order  []*group
}

type group struct {
	id   bsonraw.Value
	accs []*accumulator
}

func compileGroup(spec bsonraw.Value, vars expr.Vars) (*grouping, error) {
	if spec.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(15947, "a group's fields must be specified in an object")
	}
	g := &grouping{vars: vars, groups: map[string]*group{}}
	for it := bsonraw.NewIter(spec.Data); it.Next(); {
		name := string(it.Key())
		if name == "_id" {
			e, err := expr.Compile(it.Value())
			if err != nil {
				return nil, err
			}
			g.id = e
			continue
		}
		if strings.Contains(name, ".") {
			return nil, mongoerr.New(40235, "The field name '%s' cannot contain '.'", name)
		}
		f, err := compileAccumulator(name, it.Value())
		if err != nil {
			return nil, err
		}
		if vars.Collation != nil && (f.op == "$min" || f.op == "$max" || f.op == "$addToSet") {
			return nil, mongoerr.Lacking("the accumulator %s with a collation", f.op)
		}
		g.fields = append(g.fields, f)
	}
	if g.id == nil {
		return nil, mongoerr.New(15955, "a group specification must include an _id")
	}
	return g, nil
}

func compileAccumulator(name string, v bsonraw.Value) (field, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument || bsonraw.Len(v.Data) != 1 {
		return field{}, mongoerr.New(40234, "The field '%s' must be an accumulator object", name)
	}
	it := bsonraw.NewIter(v.Data)
	it.Next()
	f := field{name: name, op: string(it.Key())}
	switch f.op {
	case "$sum", "$min", "$max", "$push", "$addToSet":
		var err error
		f.arg, err = expr.Compile(it.Value())
		return f, err
	case "$count":
		if it.Value().Type != bsoncore.TypeEmbeddedDocument || !bsonraw.Empty(it.Value().Data) {
			return f, mongoerr.New(mongoerr.TypeMismatch, "$count takes no arguments, i.e. $count:{}")
		}
		f.op = "$sum"
		var err error
		f.arg, err = expr.Compile(bsonraw.Int32Value(1))
		return f, err
	case "$avg", "$first", "$last", "$mergeObjects", "$stdDevPop", "$stdDevSamp", "$accumulator", "$top", "$topN", "$bottom", "$bottomN", "$firstN", "$lastN",
		"$maxN", "$minN", "$median", "$percentile":
		return f, mongoerr.Lacking("the accumulator %s", f.op)
	}
	return f, mongoerr.New(15952, "unknown group operator '%s'", f.op)
}

func (g *grouping) push(docs [][]byte) ([][]byte, bool, error) {
	for _, d := range docs {
		id, err := g.id.Eval(d, g.vars)
		if err != nil {
			return nil, false, err
		}
		if bsonraw.IsMissing(id) {
			id = bsonraw.Null
		}
		key, err := bsonraw.AppendKey(nil, g.vars.Collation.Value(id))
		if err != nil {
			return nil, false, mongoerr.Lacking("this $group key: %v", err)
		}
		gr := g.groups[string(key)]
		if gr == nil {
			gr = &group{id: id}
			for _, f := range g.fields {
				gr.accs = append(gr.accs, &accumulator{op: f.op, sum: bsonraw.Int32Value(0)})
			}
			g.groups[string(key)] = gr
			g.order = append(g.order, gr)
		}
		for i, f := range g.fields {
			v, err := f.arg.Eval(d, g.vars)
			if err != nil {
				return nil, false, err
			}
			if err := gr.accs[i].add(v); err != nil {
				return nil, false, err
			}
		}
	}
	return nil, false, nil
}

func (g *grouping) flush() ([][]byte, error) {
	out := make([][]byte, len(g.order))
	for i, gr := range g.order {
		b := bsonraw.NewBuilder(128).Value("_id", gr.id)
		for j, f := range g.fields {
			b.Value(f.name, gr.accs[j].result())
		}
		out[i] = b.Bytes()
	}
	g.order, g.groups = nil, map[string]*group{}
	return out, nil
}

type accumulator struct {
	op     string
	sum    bsonraw.Value
	n      int64
	value  bsonraw.Value
	values []bsonraw.Value
}

func (a *accumulator) add(v bsonraw.Value) error {
	switch a.op {
	case "$sum":
		if !bsonraw.IsNumber(v) {
			return nil
		}
		if v.Type == bsoncore.TypeDecimal128 {
			return mongoerr.Lacking("%s of Decimal128", a.op)
		}
		next, ok := expr.Apply(expr.Add, a.sum, v)
		if !ok {
			next, _ = expr.Apply(expr.Add, bsonraw.DoubleValue(bsonraw.Float64(a.sum)), v)
		}
		a.sum = next
	case "$min", "$max":
		if bsonraw.IsNullish(v) {
			return nil
		}
		c := bsonraw.Compare(v, a.value)
		if a.n > 0 && (a.op == "$min" && c >= 0 || a.op == "$max" && c <= 0) {
			return nil
		}
		a.value = v
	case "$push":
		if bsonraw.IsMissing(v) {
			return nil
		}
		a.values = append(a.values, v)
	case "$addToSet":
		if bsonraw.IsMissing(v) || slices.ContainsFunc(a.values, func(w bsonraw.Value) bool { return bsonraw.Equal(v, w) }) {
			return nil
		}
		a.values = append(a.values, v)
	}
	a.n++
	return nil
}

func (a *accumulator) result() bsonraw.Value {
	switch a.op {
	case "$sum":
		return a.sum
	case "$push", "$addToSet":
		return bsonraw.Array(a.values)
	}
	if bsonraw.IsMissing(a.value) {
		return bsonraw.Null
	}
	return a.value
}
