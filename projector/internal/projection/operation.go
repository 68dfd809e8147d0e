package projection

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// operator is a word of the vocabulary that changes fields.
type operator string

// The operators. Each works on the value at a path. An operation whose expression gives an
// empty optional does nothing. All expressions see the state before the event. The paths of
// a handler's operations do not overlap, so their order does not matter.
const (
	// opSet stores the value.
	opSet operator = "set"
	// opUnset removes the field. An absent field stays absent.
	opUnset operator = "unset"
	// opInc adds a number to a number; an absent one counts as 0. A Decimal128 with any
	// number gives a Decimal128, otherwise a double with any number gives a double. Two
	// integers give an int64, and an overflow is an error.
	opInc operator = "inc"
	// opPush appends the value to an array; an absent one counts as empty. Then it can sort
	// the array, and keep its first or last elements.
	opPush operator = "push"
	// opPull removes every element that equals the value. An absent array stays absent.
	opPull operator = "pull"
	// opAddToSet appends the value unless an element equals it.
	opAddToSet operator = "addToSet"
	// opMin stores the value if it is less than the present one, or if there is none.
	opMin operator = "min"
	// opMax stores the value if it is greater than the present one, or if there is none.
	opMax operator = "max"
	// opCompute stores the value of a computed field ([computedFields]). It is no word of a rule.
	opCompute operator = "compute"
)

// operation is one operator with its path and, except for unset, its expression.
type operation struct {
	op    operator
	path  fieldPath
	value *expression
	// form is nil unless push sorts or shortens the list.
	form *listForm
}

// String says which operation it is, for errors.
func (o *operation) String() string {
	if len(o.path) == 0 {
		return string(o.op)
	}
	return string(o.op) + " " + o.path.String()
}

// commutes reports whether two operations whose computed paths can be equal may do so: the
// sum of two numbers does not depend on their order.
func (o *operation) commutes(other *operation) bool {
	if o.op != opInc || other.op != opInc || len(o.path) != len(other.path) {
		return false
	}
	for i, s := range o.path {
		// A name that is declared in both paths is the same in both.
		if t := other.path[i]; s.element != t.element || s.element && s.name != t.name {
			return false
		}
	}
	return o.canonical() != other.canonical()
}

// canonical returns the operator and the path in canonical form.
func (o *operation) canonical() string {
	return string(o.op) + " " + o.path.canonical()
}

// apply carries the operation out on d, at the path for the event.
func (o *operation) apply(d *document, path fieldPath, v bson.RawValue) error {
	if o.op == opUnset || o.op == opPull {
		if !d.Exists || !d.reaches(path) {
			return nil
		}
	}
	field := d.Touch(path[0].name)
	if o.op == opPush && len(path) == 1 && o.form == nil {
		return d.push(field, v)
	}
	before := field.Whole()
	next, err := path.step(before, func(old bson.RawValue) (bson.RawValue, error) { return o.change(old, v, d.meter) }, d.meter)
	if err != nil {
		return err
	}
	if !fold.SameBytes(before, next) {
		field.Replace(next)
	}
	if fold.Present(next) {
		d.Create()
	}
	return nil
}

// push appends to a top-level array without copying it.
func (d *document) push(field *fold.Touched, v bson.RawValue) error {
	switch {
	case !fold.Present(field.Value):
		field.Value = bson.RawValue{Type: bson.TypeArray, Value: fold.EmptyDocument}
	case field.Value.Type != bson.TypeArray:
		return errNotArray(field.Value)
	}
	field.Pushed = append(field.Pushed, v)
	field.PushedSize += fold.ElementOverhead + len(v.Value)
	d.Create()
	return nil
}

// reaches reports whether there is a value at p, or at the array on the path whose elements p
// selects. It does not look into arrays.
func (d *document) reaches(p fieldPath) bool {
	var v bson.RawValue
	if i := d.IndexTouched(p[0].name); i >= 0 {
		v = d.Touched[i].Value
	} else {
		v, _ = fold.Lookup(d.Base, p[0].name)
	}
	for _, s := range p[1:] {
		if s.element {
			break
		}
		if v.Type != bson.TypeEmbeddedDocument {
			return false
		}
		v, _ = fold.Lookup(v.Value, s.name)
	}
	return fold.Present(v)
}

// change returns the value after the operator, given the one before.
func (o *operation) change(old, v bson.RawValue, m *meter) (bson.RawValue, error) {
	switch o.op {
	case opSet, opCompute:
		return v, nil
	case opUnset:
		return bson.RawValue{}, nil
	case opInc:
		return fold.AddNumbers(old, v)
	case opPush:
		if fold.Present(old) && old.Type != bson.TypeArray {
			return old, errNotArray(old)
		}
		next := fold.ArrayOf(old, []bson.RawValue{v})
		if o.form != nil {
			return o.form.arrange(next, m)
		}
		return next, nil
	case opPull:
		return pull(old, v, m)
	case opAddToSet:
		return addToSet(old, v, m)
	case opMin, opMax:
		return extreme(o.op, old, v)
	}
	return old, fmt.Errorf("unknown operator %s", o.op)
}

func errNotArray(v bson.RawValue) error {
	return fmt.Errorf("the field is %s, not an array", fold.TypeName(v))
}

func pull(old, v bson.RawValue, m *meter) (bson.RawValue, error) {
	if !fold.Present(old) {
		return old, nil
	}
	if old.Type != bson.TypeArray {
		return old, errNotArray(old)
	}
	var kept []bson.RawValue
	total := 0
	for _, element := range m.fields(old.Value).all() {
		total++
		if !equalValues(element, v, m) {
			kept = append(kept, element)
		}
	}
	if len(kept) == total {
		return old, nil
	}
	return fold.ArrayOf(bson.RawValue{}, kept), nil
}

func addToSet(old, v bson.RawValue, m *meter) (bson.RawValue, error) {
	if fold.Present(old) && old.Type != bson.TypeArray {
		return old, errNotArray(old)
	}
	for _, element := range m.fields(old.Value).all() {
		if equalValues(element, v, m) {
			return old, nil
		}
	}
	return fold.ArrayOf(old, []bson.RawValue{v}), nil
}

func extreme(op operator, old, v bson.RawValue) (bson.RawValue, error) {
	if !fold.Present(old) {
		if _, err := fold.CompareValues(v, v); err != nil {
			return old, fmt.Errorf("%s has no order", fold.TypeName(v))
		}
		return v, nil
	}
	c, err := fold.CompareValues(v, old)
	if err != nil {
		return old, err
	}
	if op == opMin && c < 0 || op == opMax && c > 0 {
		return v, nil
	}
	return old, nil
}
