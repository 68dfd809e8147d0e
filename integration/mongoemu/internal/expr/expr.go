package expr

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Vars are the inputs of an expression besides the document.
type Vars struct {
	// Now is the value of $$NOW in milliseconds since the Unix epoch.
	Now int64
	// Collation compares strings in filters and in the comparison operators of
	// expressions; nil compares them byte by byte.
	Collation *collation.Collation
}

// Expr is a compiled expression. It is safe for concurrent use.
type Expr interface {
	// Eval evaluates the expression for doc. An absent value is [bsonraw.Missing].
	Eval(doc []byte, vars Vars) (bsonraw.Value, error)
}

// Compile compiles an expression.
func Compile(v bsonraw.Value) (Expr, error) {
	switch v.Type {
	case bsoncore.TypeString:
		text := string(bsonraw.Text(v))
		switch {
		case strings.HasPrefix(text, "$$"):
			return compileVariable(text[2:])
		case strings.HasPrefix(text, "$"):
			return compileFieldPath(text[1:])
		}
		return literal{v}, nil
	case bsoncore.TypeArray:
		items, err := compileAll(bsonraw.Elements(v.Data))
		if err != nil {
			return nil, err
		}
		return array(items), nil
	case bsoncore.TypeEmbeddedDocument:
		return compileDocument(v)
	}
	return literal{v}, nil
}

func compileAll(values []bsonraw.Value) ([]Expr, error) {
	items := make([]Expr, len(values))
	for i, v := range values {
		var err error
		if items[i], err = Compile(v); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func compileDocument(v bsonraw.Value) (Expr, error) {
	it := bsonraw.NewIter(v.Data)
	if !it.Next() {
		return literal{v}, nil
	}
	if strings.HasPrefix(string(it.Key()), "$") {
		name, operand := string(it.Key()), it.Value()
		if it.Next() {
			return nil, mongoerr.New(15983, "An object representing an expression must have exactly one field: %s", bsonraw.Format(v))
		}
		return compileOperator(name, operand)
	}
	doc := document{}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		key := string(it.Key())
		if strings.Contains(key, ".") {
			return nil, mongoerr.New(16410, "FieldPath field names may not contain '.'. Consider using $getField or $setField.")
		}
		e, err := Compile(it.Value())
		if err != nil {
			return nil, err
		}
		doc = append(doc, field{name: key, e: e})
	}
	return doc, nil
}

func compileVariable(text string) (Expr, error) {
	name, rest, dotted := strings.Cut(text, ".")
	var e Expr
	switch {
	case name == "ROOT", name == "CURRENT":
		e = root{}
	case name == "NOW":
		e = now{}
	case name == "REMOVE":
		e = literal{bsonraw.Missing}
	case name != "" && name[0] >= 'A' && name[0] <= 'Z':
		return nil, mongoerr.Lacking("the variable $$%s", name)
	default:
		return nil, mongoerr.New(17276, "Use of undefined variable: %s", name)
	}
	if !dotted {
		return e, nil
	}
	return pathOf{of: e, path: strings.Split(rest, ".")}, nil
}

func compileFieldPath(text string) (Expr, error) {
	parts := strings.Split(text, ".")
	for _, p := range parts {
		switch {
		case p == "":
			return nil, mongoerr.New(15998, "FieldPath field names may not be empty strings.")
		case strings.HasPrefix(p, "$"):
			return nil, mongoerr.New(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
		}
	}
	return fieldPath(parts), nil
}

type literal struct{ v bsonraw.Value }

func (l literal) Eval([]byte, Vars) (bsonraw.Value, error) { return l.v, nil }

type root struct{}

func (root) Eval(doc []byte, _ Vars) (bsonraw.Value, error) { return bsonraw.DocumentValue(doc), nil }

type now struct{}

func (now) Eval(_ []byte, vars Vars) (bsonraw.Value, error) { return bsonraw.DateValue(vars.Now), nil }

type fieldPath []string

func (p fieldPath) Eval(doc []byte, _ Vars) (bsonraw.Value, error) {
	return descend(bsonraw.DocumentValue(doc), p), nil
}

type pathOf struct {
	of   Expr
	path []string
}

func (p pathOf) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	v, err := p.of.Eval(doc, vars)
	if err != nil {
		return v, err
	}
	return descend(v, p.path), nil
}

// descend follows a path. In an array, it collects the values of all elements that have
// the path.
func descend(v bsonraw.Value, path []string) bsonraw.Value {
	for i, name := range path {
		switch v.Type {
		case bsoncore.TypeEmbeddedDocument:
			next, ok := bsonraw.Lookup(v.Data, name)
			if !ok {
				return bsonraw.Missing
			}
			v = next
		case bsoncore.TypeArray:
			found := []bsonraw.Value{}
			for it := bsonraw.NewIter(v.Data); it.Next(); {
				if t := it.Value().Type; t != bsoncore.TypeEmbeddedDocument && t != bsoncore.TypeArray {
					continue
				}
				if e := descend(it.Value(), path[i:]); !bsonraw.IsMissing(e) {
					found = append(found, e)
				}
			}
			return bsonraw.Array(found)
		default:
			return bsonraw.Missing
		}
	}
	return v
}

type field struct {
	name string
	e    Expr
}

type document []field

func (d document) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	b := bsonraw.NewBuilder(64)
	for _, f := range d {
		v, err := f.e.Eval(doc, vars)
		if err != nil {
			return bsonraw.Missing, err
		}
		b.Value(f.name, v)
	}
	return bsonraw.DocumentValue(b.Bytes()), nil
}

type array []Expr

func (a array) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	values, err := evalAll(a, doc, vars)
	if err != nil {
		return bsonraw.Missing, err
	}
	for i, v := range values {
		if bsonraw.IsMissing(v) {
			values[i] = bsonraw.Null
		}
	}
	return bsonraw.Array(values), nil
}

func evalAll(items []Expr, doc []byte, vars Vars) ([]bsonraw.Value, error) {
	values := make([]bsonraw.Value, len(items))
	for i, e := range items {
		var err error
		if values[i], err = e.Eval(doc, vars); err != nil {
			return nil, err
		}
	}
	return values, nil
}
