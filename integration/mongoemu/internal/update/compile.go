package update

import (
	"cmp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// operation is one update operator on one path.
type operation struct {
	name     string
	path     []string
	operand  bsonraw.Value
	onInsert bool
	push     *push // only $push
	apply    func(*target, operation) error
}

func compileOperators(doc []byte) ([]operation, error) {
	var ops []operation
	for it := bsonraw.NewIter(doc); it.Next(); {
		name := string(it.Key())
		if err := known(name); err != nil {
			return nil, err
		}
		if it.Value().Type != bsoncore.TypeEmbeddedDocument {
			return nil, mongoerr.New(mongoerr.FailedToParse, "Modifiers operate on fields but we found type %s instead. For example: {$mod: {<field>: ...}} not {%s: %s}", bsonraw.TypeName(it.Value().Type), name, bsonraw.Format(it.Value()))
		}
		for fields := bsonraw.NewIter(it.Value().Data); fields.Next(); {
			op, err := compileOperation(name, string(fields.Key()), fields.Value())
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
	}
	slices.SortStableFunc(ops, func(a, b operation) int { return comparePaths(a.path, b.path) })
	return ops, conflicts(ops)
}

func known(name string) error {
	switch name {
	case "$set", "$setOnInsert", "$unset", "$inc", "$min", "$max", "$currentDate", "$push":
		return nil
	case "$bit", "$mul", "$rename", "$addToSet", "$pull", "$pullAll", "$pop":
		return mongoerr.Lacking("the update operator %s", name)
	}
	return mongoerr.New(mongoerr.FailedToParse, "Unknown modifier: %s. Expected a valid update modifier or pipeline-style update specified as an array", name)
}

func splitPath(dotted string) ([]string, error) {
	path := strings.Split(dotted, ".")
	for _, p := range path {
		switch {
		case p == "":
			return nil, mongoerr.New(mongoerr.EmptyFieldName, "The update path '%s' contains an empty field name, which is not allowed.", dotted)
		case p == "$", strings.HasPrefix(p, "$["):
			return nil, mongoerr.Lacking("the positional update path %q", dotted)
		case strings.HasPrefix(p, "$"):
			return nil, mongoerr.New(mongoerr.DollarPrefixedFieldName, "The dollar ($) prefixed field '%s' in '%s' is not valid for storage.", p, dotted)
		}
	}
	return path, nil
}

func compileOperation(name, dotted string, operand bsonraw.Value) (operation, error) {
	path, err := splitPath(dotted)
	if err != nil {
		return operation{}, err
	}
	op := operation{name: name, path: path, operand: operand}
	switch name {
	case "$set":
		op.apply = applySet
	case "$setOnInsert":
		op.apply, op.onInsert = applySet, true
	case "$unset":
		op.apply = applyUnset
	case "$inc":
		if !bsonraw.IsNumber(operand) {
			return op, mongoerr.New(mongoerr.TypeMismatch, "Cannot increment with non-numeric argument: {%s: %s}", dotted, bsonraw.Format(operand))
		}
		op.apply = applyInc
	case "$min", "$max":
		op.apply = applyExtreme
	case "$currentDate":
		op.apply = applyCurrentDate
		err = checkCurrentDate(operand)
	case "$push":
		op.apply = applyPush
		op.push, err = compilePush(operand)
	}
	return op, err
}

func checkCurrentDate(operand bsonraw.Value) error {
	if operand.Type == bsoncore.TypeBoolean {
		return nil
	}
	if operand.Type == bsoncore.TypeEmbeddedDocument && bsonraw.Len(operand.Data) == 1 {
		if t, ok := bsonraw.Lookup(operand.Data, "$type"); ok && t.Type == bsoncore.TypeString {
			if s := string(bsonraw.Text(t)); s == "date" || s == "timestamp" {
				return nil
			}
		}
	}
	return mongoerr.New(mongoerr.BadValue, "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}")
}

// comparePaths orders paths in the order in which the server applies them: field names by
// their bytes, array positions by number.
func comparePaths(a, b []string) int {
	for i := range min(len(a), len(b)) {
		x, xn := position(a[i])
		y, yn := position(b[i])
		if xn && yn {
			if c := cmp.Compare(x, y); c != 0 {
				return c
			}
			continue
		}
		if c := strings.Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// conflicts returns an error if one operation's path is equal to, or a prefix of,
// another's.
func conflicts(ops []operation) error {
	var paths [][]string
	for _, op := range ops {
		paths = append(paths, op.path)
	}
	slices.SortFunc(paths, comparePaths)
	for i := 1; i < len(paths); i++ {
		p, q := paths[i-1], paths[i]
		if len(p) <= len(q) && slices.Equal(p, q[:len(p)]) {
			return mongoerr.New(mongoerr.ConflictingUpdateOperators, "Updating the path '%s' would create a conflict at '%s'", strings.Join(q, "."), strings.Join(p, "."))
		}
	}
	return nil
}
