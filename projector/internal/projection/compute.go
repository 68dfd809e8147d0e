package projection

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/yamlplace"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// computedFields are fields whose values depend on the document only. They are computed after each
// event that changes it, each after those that it depends on.
type computedFields []operation

// refresh computes the fields from the present document. s.state is the document after the
// event.
func (c computedFields) refresh(s *scope, d *document) error {
	for i := range c {
		o := &c[i]
		d.large = nil // it has values of the document before the change
		value, err := o.evaluate(s, d.meter)
		if err != nil {
			return err
		}
		if fold.Present(value) || d.reaches(o.path) {
			if err := o.apply(d, o.path, value); err != nil {
				return fmt.Errorf("%s: %s: %w", o, o.value.source, err)
			}
		}
	}
	return nil
}

// compute reads the computed fields of a source.
func (p place) compute(e yamlplace.Entry, s *source) {
	before := len(p.problems)
	entries, ok := p.entries(e.Value)
	if !ok || len(entries) == 0 {
		p.in("compute").problem(e.Value, "compute takes a mapping of fields to expressions")
		return
	}
	fields := make(map[string]*computedField, len(entries))
	for _, e := range entries {
		at := p.in("compute " + e.Key)
		path, ok := at.path(opCompute, e.Node)
		value := at.expression(e.Value, anyValue)
		if !ok || value == nil {
			continue
		}
		if path.computed() {
			at.problem(e.Node, "a computed field has a name that is declared, so without brackets")
			continue
		}
		f := &computedField{node: e.Node, operation: operation{op: opCompute, path: path, value: value}}
		fields[path.String()] = f
		at.inputs(f)
		at.alone(f, s.on)
		s.compute = append(s.compute, f.operation)
	}
	p.disjoint(e.Node, s.compute)
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
// come in the order of their names. It removes from fields what it has put in order.
func (p place) inOrder(fields map[string]*computedField) (ordered computedFields) {
	left := sortedKeys(fields)
	waits := map[string][]string{}
	for _, name := range left {
		for _, other := range left {
			if slices.ContainsFunc(fields[name].inputs, fields[other].path.overlaps) {
				waits[name] = append(waits[name], other)
			}
		}
	}
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(name string) bool {
			return !slices.ContainsFunc(waits[name], func(other string) bool { return fields[other] != nil })
		})
		if next < 0 {
			p.in("compute").problem(fields[left[0]].node, "%s cannot be computed: the value depends on itself, directly or through others of them. Compute it from fields that rules change", strings.Join(left, ", "))
			return nil
		}
		ordered = append(ordered, fields[left[next]].operation)
		delete(fields, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return ordered
}
