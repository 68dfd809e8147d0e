package projection

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Transform transforms a document into another one. It is safe for concurrent use.
type Transform interface {
	Apply(doc []byte, vars expr.Vars) ([]byte, error)
}

type treeTransform struct{ t *tree }

func (x treeTransform) Apply(doc []byte, vars expr.Vars) ([]byte, error) {
	size := len(doc)
	if !x.t.keep {
		size = min(size, 256) // most included fields are small
	}
	b := bsonraw.NewBuilder(size)
	if err := x.t.apply(b, doc, doc, vars); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

type identity struct{}

func (identity) Apply(doc []byte, _ expr.Vars) ([]byte, error) { return doc, nil }

// flag is one field of a projection, with its dotted path.
type flag struct {
	path string
	v    bsonraw.Value
}

// flatten appends the fields of doc to flags. It turns nested documents that are not
// expressions into dotted paths.
func flatten(flags []flag, prefix string, doc []byte) ([]flag, error) {
	for it := bsonraw.NewIter(doc); it.Next(); {
		path := prefix + string(it.Key())
		v := it.Value()
		if v.Type != bsoncore.TypeEmbeddedDocument {
			flags = append(flags, flag{path, v})
			continue
		}
		inner := bsonraw.NewIter(v.Data)
		if !inner.Next() {
			return nil, mongoerr.New(51270, "An empty sub-projection is not a valid value. Found empty object at path %s", path)
		}
		if strings.HasPrefix(string(inner.Key()), "$") {
			switch op := string(inner.Key()); op {
			case "$slice", "$elemMatch", "$meta":
				return nil, mongoerr.Lacking("the projection operator %s", op)
			}
			flags = append(flags, flag{path, v})
			continue
		}
		var err error
		if flags, err = flatten(flags, path+".", v.Data); err != nil {
			return nil, err
		}
	}
	return flags, nil
}

// Compile compiles a projection of find or $project. An empty projection does not change
// documents.
func Compile(spec []byte) (Transform, error) {
	if bsonraw.Empty(spec) {
		return identity{}, nil
	}
	flags, err := flatten(nil, "", spec)
	if err != nil {
		return nil, err
	}
	including, err := includes(flags)
	if err != nil {
		return nil, err
	}
	t := &tree{keep: !including}
	id := false
	for _, f := range flags {
		id = id || f.path == "_id" || strings.HasPrefix(f.path, "_id.")
		leaf := child{kind: computed}
		switch {
		case !isFlag(f.v):
			if leaf.e, err = expr.Compile(f.v); err != nil {
				return nil, err
			}
		case bsonraw.Truthy(f.v):
			leaf.kind = include
		default:
			leaf.kind = exclude
		}
		if err := t.add(strings.Split(f.path, "."), f.path, leaf); err != nil {
			return nil, err
		}
	}
	if including && !id {
		t.children = append(t.children, &child{name: "_id", kind: include})
	}
	return treeTransform{t}, nil
}

func isFlag(v bsonraw.Value) bool {
	return bsonraw.IsNumber(v) || v.Type == bsoncore.TypeBoolean
}

// includes reports whether the projection is an inclusion. It refuses a mixture of
// inclusion and exclusion, except for _id.
func includes(flags []flag) (bool, error) {
	var including, excluding string
	for _, f := range flags {
		if f.path == "_id" && isFlag(f.v) {
			continue
		}
		if !isFlag(f.v) || bsonraw.Truthy(f.v) {
			if excluding != "" {
				return false, mongoerr.New(31253, "Cannot do inclusion on field %s in exclusion projection", f.path)
			}
			including = f.path
			continue
		}
		if including != "" {
			return false, mongoerr.New(31254, "Cannot do exclusion on field %s in inclusion projection", f.path)
		}
		excluding = f.path
	}
	if including == "" && excluding == "" {
		return bsonraw.Truthy(flags[0].v), nil
	}
	return including != "", nil
}

// CompileAddFields compiles $addFields or $set. stage is the name for errors.
func CompileAddFields(stage string, spec bsonraw.Value) (Transform, error) {
	if spec.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(40272, "%s specification stage must be an object, got %s", stage, bsonraw.TypeName(spec.Type))
	}
	t := &tree{keep: true, inPlace: true}
	if err := t.addFields("", spec.Data); err != nil {
		return nil, err
	}
	return treeTransform{t}, nil
}

func (t *tree) addFields(prefix string, doc []byte) error {
	for it := bsonraw.NewIter(doc); it.Next(); {
		path := prefix + string(it.Key())
		if v := it.Value(); v.Type == bsoncore.TypeEmbeddedDocument {
			inner := bsonraw.NewIter(v.Data)
			if inner.Next() && !strings.HasPrefix(string(inner.Key()), "$") {
				if err := t.addFields(path+".", v.Data); err != nil {
					return err
				}
				continue
			}
		}
		e, err := expr.Compile(it.Value())
		if err != nil {
			return err
		}
		if err := t.add(strings.Split(path, "."), path, child{kind: computed, e: e}); err != nil {
			return err
		}
	}
	return nil
}

// CompileUnset compiles $unset: a path or a list of paths.
func CompileUnset(spec bsonraw.Value) (Transform, error) {
	paths := []bsonraw.Value{spec}
	if spec.Type == bsoncore.TypeArray {
		paths = bsonraw.Elements(spec.Data)
	}
	t := &tree{keep: true}
	for _, p := range paths {
		if p.Type != bsoncore.TypeString {
			return nil, mongoerr.New(31002, "$unset specification must be a string or an array")
		}
		path := string(bsonraw.Text(p))
		if err := t.add(strings.Split(path, "."), path, child{kind: exclude}); err != nil {
			return nil, err
		}
	}
	if len(t.children) == 0 {
		return nil, mongoerr.New(31119, "$unset specification must be a string or an array with at least one field")
	}
	return treeTransform{t}, nil
}

// CompileReplace compiles the expression of $replaceWith or of newRoot in $replaceRoot.
func CompileReplace(spec bsonraw.Value) (Transform, error) {
	e, err := expr.Compile(spec)
	if err != nil {
		return nil, err
	}
	return replace{e}, nil
}

type replace struct{ e expr.Expr }

func (r replace) Apply(doc []byte, vars expr.Vars) ([]byte, error) {
	v, err := r.e.Eval(doc, vars)
	if err != nil {
		return nil, err
	}
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(40228, "'newRoot' expression must evaluate to an object, but resulting value was: %s", bsonraw.Format(v))
	}
	return v.Data, nil
}

// CompileStage compiles one of the stages of this package. ok is false for any other
// name.
func CompileStage(name string, spec bsonraw.Value) (t Transform, ok bool, err error) {
	switch name {
	case "$project":
		if spec.Type != bsoncore.TypeEmbeddedDocument {
			return nil, true, mongoerr.New(15969, "$project specification must be an object")
		}
		if bsonraw.Empty(spec.Data) {
			return nil, true, mongoerr.New(51272, "projection specification must have at least one field")
		}
		t, err = Compile(spec.Data)
	case "$addFields", "$set":
		t, err = CompileAddFields(name, spec)
	case "$unset":
		t, err = CompileUnset(spec)
	case "$replaceWith":
		t, err = CompileReplace(spec)
	case "$replaceRoot":
		if spec.Type != bsoncore.TypeEmbeddedDocument {
			return nil, true, mongoerr.New(40229, "expected an object as specification for $replaceRoot stage, got %s", bsonraw.TypeName(spec.Type))
		}
		root, found := bsonraw.Lookup(spec.Data, "newRoot")
		if !found || bsonraw.Len(spec.Data) != 1 {
			return nil, true, mongoerr.New(40231, "no newRoot specified for the $replaceRoot stage")
		}
		t, err = CompileReplace(root)
	default:
		return nil, false, nil
	}
	return t, true, err
}
