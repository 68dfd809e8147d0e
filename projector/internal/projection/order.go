package projection

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// A map that an expression has made is a map of Go, which has a random order. Whatever
// visits its entries visits them sorted by key, because a fold must give the same bytes
// each time. Maps of the event and the state keep the order in which they are stored.

// orderedMap is a map with sorted entries.
type orderedMap struct {
	traits.Mapper
	sorted []mapEntry
}

type mapEntry struct{ key, value ref.Val }

// Fold is called by the comprehensions of CEL.
func (m *orderedMap) Fold(f traits.Folder) {
	for _, e := range m.sorted {
		if !f.FoldEntry(e.key, e.value) {
			return
		}
	}
}

// sortedEntries returns the entries of a map, sorted by key.
func sortedEntries(from traits.Mapper, m *meter) []mapEntry {
	c := entryCollector{meter: m}
	types.ToFoldableMap(from).Fold(&c)
	m.spend(len(c.entries)*sortWork(len(c.entries))+c.keys/bytesPerWork*bits.Len(uint(len(c.entries))), 0)
	slices.SortStableFunc(c.entries, func(a, b mapEntry) int { return compareKeys(a.key, b.key) })
	return c.entries
}

// keysPrintAlike reports whether two keys of a map in v have the same text, such as 1 and '1'.
// format sorts entries by these texts, so it would leave such two in a random order.
func keysPrintAlike(v ref.Val) bool {
	switch v := v.(type) {
	case *documentValue, *arrayValue, *eventVariable, *stateView: // their keys are texts
		return false
	case traits.Mapper:
		texts := make(map[string]bool)
		for keys := v.Iterator(); keys.HasNext() == types.True; {
			key := keys.Next()
			text := fmt.Sprint(key.Value())
			value, _ := v.Find(key)
			if texts[text] || keysPrintAlike(value) {
				return true
			}
			texts[text] = true
		}
	case traits.Lister:
		for elements := v.Iterator(); elements.HasNext() == types.True; {
			if keysPrintAlike(elements.Next()) {
				return true
			}
		}
	case *types.Optional:
		return v.HasValue() && keysPrintAlike(v.GetValue())
	}
	return false
}

// entryCollector collects the entries of a map.
type entryCollector struct {
	entries []mapEntry
	// keys is the size of all keys.
	keys  int
	meter *meter
}

// FoldEntry implements [traits.Folder].
func (c *entryCollector) FoldEntry(key, value any) bool {
	c.meter.spend(fieldWork, elementMemory)
	adapt := types.DefaultTypeAdapter.NativeToValue
	e := mapEntry{adapt(key), adapt(value)}
	c.keys += textSize(e.key)
	c.entries = append(c.entries, e)
	return true
}

// compareKeys orders the keys of a map: texts, then false and true, then numbers by their
// values.
func compareKeys(a, b ref.Val) int {
	x, ok := a.(types.String)
	y, alsoOK := b.(types.String)
	switch {
	case ok && alsoOK:
		return strings.Compare(string(x), string(y))
	case ok:
		return -1
	case alsoOK:
		return 1
	case isNumber(a) && isNumber(b):
		if c := fold.CompareNumbers(numberIn(a), numberIn(b)); c != 0 {
			return c
		}
	case a == types.False && b == types.True:
		return -1
	case a == types.True && b == types.False:
		return 1
	}
	return cmp.Compare(a.Type().TypeName(), b.Type().TypeName())
}

// hashedKeys replaces the keys in brackets and in map literals in a program's plan. A map of Go
// hashes the whole key, which takes one step of CEL whatever the size is.
func hashedKeys(checked *ast.AST) interpreter.InterpretableDecoratorV2 {
	keys := map[int64]bool{}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.CallKind:
			if call := e.AsCall(); call.FunctionName() == celop.Index || call.FunctionName() == celop.OptIndex {
				keys[call.Args()[1].ID()] = true
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				keys[entry.AsMapEntry().Key().ID()] = true
			}
		}
	}))
	hashing := replacing(keys, func(frame *interpreter.ExecutionFrame, v ref.Val) ref.Val {
		if textSize(v) > smallText {
			meterOf(frame).hashed(v)
		}
		return v
	})
	return func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if constant(node) {
			return node, nil
		}
		return hashing(node)
	}
}

// orderedRanges replaces the ranges of loops in a program's plan.
func orderedRanges(checked *ast.AST) interpreter.InterpretableDecoratorV2 {
	ranges := map[int64]bool{}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			if within := e.AsComprehension().IterRange(); within.Kind() != ast.ListKind {
				ranges[within.ID()] = true
			}
		}
	}))
	return replacing(ranges, func(frame *interpreter.ExecutionFrame, v ref.Val) ref.Val {
		switch m := v.(type) {
		case *documentValue, *eventVariable, *stateView:
			return v
		case traits.Mapper:
			return &orderedMap{m, sortedEntries(m, meterOf(frame))}
		}
		return v
	})
}

// replacing replaces the values of nodes in a program's plan.
func replacing(nodes map[int64]bool, value func(frame *interpreter.ExecutionFrame, v ref.Val) ref.Val) interpreter.InterpretableDecoratorV2 {
	return func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if !nodes[node.ID()] {
			return node, nil
		}
		return &planned{node, func(frame *interpreter.ExecutionFrame) ref.Val { return value(frame, node.Exec(frame)) }}, nil
	}
}
