package projection

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"
)

// computedFields are fields whose values depend on the document only. They are computed after each
// event that changes it, each after those that it depends on.
type computedFields []operation

// refresh computes the fields from the present document. s.state is the document after the
// event.
func (c computedFields) refresh(s *scope, d *document) error {
	for i := range c {
		o := &c[i]
		s.doing = o
		d.large = nil // it has values of the document before the change
		v, ok, err := o.value.eval(s)
		var value bson.RawValue
		if err == nil && ok {
			value, err = encodeValue(v, d.meter)
		}
		if s.trace != nil {
			s.trace.note(o.String(), o.value, s, v, err)
		}
		switch {
		case err != nil:
		case ok || d.reaches(o.path):
			err = o.apply(d, o.path, value)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", o, o.value.source, err)
		}
	}
	return nil
}

// compute reads the computed fields of a source.
func (p place) compute(e entry, s *source) {
	before := len(p.problems)
	entries, ok := p.entries(e.value)
	if !ok || len(entries) == 0 {
		p.in("compute").problem(e.value, "compute takes a mapping of fields to expressions")
		return
	}
	fields := make(map[string]*computedField, len(entries))
	for _, e := range entries {
		at := p.in("compute " + e.key)
		path, ok := at.path(opCompute, e.node)
		value := at.expression(e.value, anyValue)
		if !ok || value == nil {
			continue
		}
		if path.computed() {
			at.problem(e.node, "a computed field has a name that is declared, so without brackets")
			continue
		}
		f := &computedField{node: e.node, operation: operation{op: opCompute, path: path, value: value}}
		fields[path.String()] = f
		at.inputs(f)
		at.alone(f, s.on)
		s.compute = append(s.compute, f.operation)
	}
	p.disjoint(e.node, s.compute)
	if len(p.problems) == before {
		s.compute = p.inOrder(fields)
	}
}

// computedField is a computed field while it is read.
type computedField struct {
	operation
	node *yaml.Node
	// inputs are the fields of the document that the expression reads.
	inputs []fieldPath
}

// inputs collects the fields that a computed field depends on.
func (p place) inputs(f *computedField) {
	for _, path := range inputs(f.value.checked.Expr()) {
		switch {
		case path[0] == varAggregateID || path[0] == varAggregateType:
		case path[0] != varState:
			p.problem(f.node, "the expression depends on the document only, and %s is of the event: store it with a rule, and read it here as a field of state", path[0])
		case len(path) == 1:
			p.problem(f.node, "the expression uses the whole state, of which the field is a part: name the fields that it reads, such as state.name")
		default:
			var input fieldPath
			for _, name := range path[1:] {
				input = append(input, pathStep{name: name})
			}
			f.inputs = append(f.inputs, input)
		}
	}
}

// alone reports the operations of rules that change a computed field too.
func (p place) alone(f *computedField, on handlers) {
	for _, eventType := range sortedKeys(on) {
		for _, h := range on[eventType] {
			for i := range h.operations {
				if o := &h.operations[i]; o.path.overlaps(f.path) {
					p.problem(f.node, "%s changes the field too (%s): compute it, or leave it to the rules", eventType, o)
				}
			}
		}
	}
}

// inOrder returns the fields, each after those that it depends on. Fields that could come next
// come in the order of their names. The work is proportional to the paths and references, as a
// file can have thousands of them.
func (p place) inOrder(fields map[string]*computedField) (ordered computedFields) {
	names := sortedKeys(fields)
	root := &dependency{}
	all := make([]*dependency, len(names))
	for i, name := range names {
		all[i] = root.add(fields[name].path)
		all[i].field = i
	}
	for i, name := range names {
		for _, input := range fields[name].inputs {
			root.find(input).before(all[i])
		}
	}
	var ready []int
	for i, d := range all {
		if d.missing == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		next := ready[0]
		ready = all[next].done(ready[1:])
		ordered = append(ordered, fields[names[next]].operation)
	}
	if len(ordered) < len(names) {
		var left []string
		for i, d := range all {
			if d.missing > 0 {
				left = append(left, names[i])
			}
		}
		p.in("compute").problem(fields[left[0]].node, "%s cannot be computed: the value depends on itself, directly or through others of them. Compute it from fields that rules change", strings.Join(left, ", "))
		return nil
	}
	return ordered
}

// dependency is a part of the document that expressions can wait for: a computed field, or a
// document with computed fields in it, which waits for each of them. Computed fields do not
// overlap, so each of them is a leaf of the tree.
type dependency struct {
	inner map[string]*dependency
	// field is the index of a computed field.
	field int
	// missing counts the dependencies that d waits for.
	missing int
	waiting []*dependency
}

// add returns the leaf of a computed field.
func (d *dependency) add(path fieldPath) *dependency {
	for _, step := range path {
		if d.inner == nil {
			d.inner = make(map[string]*dependency)
		}
		inner := d.inner[step.name]
		if inner == nil {
			inner = &dependency{}
			inner.before(d)
			d.inner[step.name] = inner
		}
		d = inner
	}
	return d
}

// find returns what an expression that reads path waits for; nil if that is nothing.
func (d *dependency) find(path fieldPath) *dependency {
	for _, step := range path {
		if d == nil || d.inner == nil {
			break
		}
		d = d.inner[step.name]
	}
	return d
}

// before lets other wait for d.
func (d *dependency) before(other *dependency) {
	if d != nil {
		d.waiting = append(d.waiting, other)
		other.missing++
	}
}

// done ends the wait for d, and adds the fields that wait for nothing more to ready, which is
// sorted.
func (d *dependency) done(ready []int) []int {
	for _, w := range d.waiting {
		w.missing--
		switch {
		case w.missing > 0:
		case w.inner != nil:
			ready = w.done(ready)
		default:
			at, _ := slices.BinarySearch(ready, w.field)
			ready = slices.Insert(ready, at, w.field)
		}
	}
	return ready
}
