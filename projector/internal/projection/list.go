package projection

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// listForm says how push keeps a list.
type listForm struct {
	// direction is 1 if the list is sorted from the least, -1 if from the greatest; 0 if it is
	// not sorted. by is the field by which it is; empty for the elements themselves.
	direction int
	by        string
	// keep is how many elements remain: the first ones, or the last ones if it is negative.
	// 0 means all.
	keep int
}

// The keys of push in its long form.
const (
	pushValue = "value"
	pushSort  = "sort"
	pushKeep  = "keep"
)

var pushKeys = []string{pushValue, pushSort, pushKeep}

// arrange sorts and shortens a list. Elements of equal rank keep their order.
func (f *listForm) arrange(array bson.RawValue, m *meter) (bson.RawValue, error) {
	type ranked struct{ element, rank bson.RawValue }
	n := m.count(array.Value)
	m.spend(0, 2*len(array.Value)+2*n*elementMemory)
	if f.direction != 0 {
		m.spend(n*sortWork(n), 0)
	}
	all := make([]ranked, 0, n)
	for _, element := range m.fields(array.Value).all() {
		e := ranked{element, element}
		if f.by != "" {
			e.rank = bson.RawValue{}
			if element.Type == bson.TypeEmbeddedDocument {
				e.rank, _ = m.lookup(element.Value, f.by)
			}
		}
		all = append(all, e)
	}
	if f.direction != 0 {
		var failed error
		slices.SortStableFunc(all, func(a, b ranked) int {
			c, err := compareRanks(a.rank, b.rank, m)
			failed = cmp.Or(failed, err)
			return f.direction * c
		})
		if failed != nil {
			return array, fmt.Errorf("sort the list: %w", failed)
		}
	}
	switch {
	case f.keep > 0:
		all = all[:min(n, f.keep)]
	case f.keep < 0:
		all = all[max(0, n+f.keep):]
	}
	elements := make([]bson.RawValue, len(all))
	for i, e := range all {
		elements[i] = e.element
	}
	return fold.ArrayOf(bson.RawValue{}, elements), nil
}

// compareRanks compares as [fold.CompareValues] does. An absent value and null are the least.
func compareRanks(a, b bson.RawValue, m *meter) (int, error) {
	some, other := fold.Present(a) && a.Type != bson.TypeNull, fold.Present(b) && b.Type != bson.TypeNull
	switch {
	case some && other:
		m.compared(len(a.Value), len(b.Value))
		x, _ := fold.NumberOf(a)
		y, _ := fold.NumberOf(b)
		m.spend(comparisonWork(x, y), 0)
		return fold.CompareValues(a, b)
	case some:
		return 1, nil
	case other:
		return -1, nil
	}
	return 0, nil
}

// describe returns the long form of push in canonical form.
func (f *listForm) describe(value string) map[string]any {
	described := map[string]any{pushValue: value}
	switch {
	case f.by != "":
		described[pushSort] = map[string]int{f.by: f.direction}
	case f.direction != 0:
		described[pushSort] = f.direction
	}
	if f.keep != 0 {
		described[pushKeep] = f.keep
	}
	return described
}

// pushForm reads the long form of push. value is nil if there is none.
func (p place) pushForm(node *yaml.Node) (value *yaml.Node, form *listForm) {
	entries, _ := p.entries(node)
	form = &listForm{}
	for _, e := range entries {
		switch e.Key {
		case pushValue:
			value = e.Value
		case pushSort:
			form.by, form.direction = p.sorting(e.Value)
		case pushKeep:
			n, err := strconv.Atoi(e.Value.Value)
			if err != nil || e.Value.Tag != "!!int" || n == 0 {
				p.problem(e.Value, "keep is a number: 10 keeps the first ten elements, -10 the last ten")
				n = 1
			}
			form.keep = n
		default:
			p.problem(e.Node, "unknown key %s%s; push takes an expression, or %s", e.Key, similar.Meant(e.Key, pushKeys), strings.Join(pushKeys, ", "))
		}
	}
	switch {
	case value == nil:
		p.problem(node, "the value to push is missing: write {value: …, keep: -10}. A document to push is an expression in quotes, such as \"{'sku': payload.sku}\"")
	case len(entries) == 1:
		p.problem(node, "without sort and keep, write the expression itself")
	}
	return value, form
}

// sorting reads 1, -1, or one of them below a field.
func (p place) sorting(node *yaml.Node) (by string, direction int) {
	at := node
	if node.Kind == yaml.MappingNode && len(node.Content) == 2 {
		by, at = node.Content[0].Value, yamlplace.Resolve(node.Content[1])
	}
	switch {
	case node.Kind == yaml.MappingNode && fold.Updatable(by) != nil:
	case at.Value == "1":
		return by, 1
	case at.Value == "-1":
		return by, -1
	}
	p.problem(node, "sort is a field of the elements with 1 or -1, such as {points: -1} for the most points first. For elements that are no documents, it is 1 or -1")
	return "", 1
}
