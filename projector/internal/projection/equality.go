package projection

import (
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// sameValue reports whether == holds for two values. Numbers of any kind are compared by
// their exact values, also inside maps and lists, and NaN equals nothing. CEL's own types
// do not know Decimal128, and they round an int to compare it with a double.
func sameValue(a, b ref.Val, m *meter) bool {
	switch x := a.(type) {
	case types.String:
		y, ok := b.(types.String)
		if !ok || len(x) != len(y) {
			return false
		}
		m.compared(len(x), len(y))
		return x == y
	case types.Bool, types.Null, types.Timestamp:
		return types.Equal(a, b) == types.True
	case types.Int:
		if y, ok := b.(types.Int); ok {
			return x == y
		}
	case types.Bytes, opaque:
		m.compared(textSize(a), textSize(b))
	case *types.Optional:
		y, ok := b.(*types.Optional)
		if !ok || !x.HasValue() || !y.HasValue() {
			return ok && x.HasValue() == y.HasValue()
		}
		return sameValue(x.GetValue(), y.GetValue(), m)
	}
	if isNumber(a) && isNumber(b) {
		return !isNaN(a) && !isNaN(b) && m.compareNumbers(numberIn(a), numberIn(b)) == 0
	}
	switch x := a.(type) {
	case traits.Mapper:
		y, ok := b.(traits.Mapper)
		return ok && sameEntries(x, y, m)
	case traits.Lister:
		y, ok := b.(traits.Lister)
		return ok && sameElements(x, y, m)
	}
	return types.Equal(a, b) == types.True
}

func sameEntries(a, b traits.Mapper, m *meter) bool {
	x, ok := a.(*documentValue)
	y, alsoOK := b.(*documentValue)
	if ok && alsoOK {
		return sameDocuments(x, y)
	}
	if a.Size() != b.Size() {
		return false
	}
	for _, e := range sortedEntries(a, m) {
		m.spend(fieldWork, 0)
		m.hashed(e.key)
		theirs, ok := b.Find(e.key)
		if !ok || !sameValue(e.value, theirs, m) {
			return false
		}
	}
	return true
}

// sameDocuments compares documents in one pass if their fields have the same order.
func sameDocuments(a, b *documentValue) bool {
	if a.count() != b.count() {
		return false
	}
	theirs := finder{doc: b.raw, meter: b.meter}
	same := true
	a.entries(func(name string, v ref.Val) bool {
		value, ok := theirs.find(name)
		same = ok && sameValue(v, celValue(value, b.meter), a.meter)
		return same
	})
	return same
}

func sameElements(a, b traits.Lister, m *meter) bool {
	if a.Size() != b.Size() {
		return false
	}
	for mine, theirs := a.Iterator(), b.Iterator(); mine.HasNext() == types.True; {
		m.spend(fieldWork, 0)
		if !sameValue(mine.Next(), theirs.Next(), m) {
			return false
		}
	}
	return true
}

// contains reports whether a list has an equal element, or a map the key.
func contains(within, v ref.Val, m *meter) ref.Val {
	switch within := within.(type) {
	case traits.Mapper:
		switch v.(type) {
		case opaque, types.Bytes:
			// No key has such a type, and a map of CEL panics if it looks for one.
			return types.False
		}
		m.hashed(v)
		return within.Contains(v)
	case *arrayValue:
		return types.Bool(within.contains(v))
	case traits.Lister:
		for elements := within.Iterator(); elements.HasNext() == types.True; {
			m.spend(fieldWork, 0)
			if sameValue(v, elements.Next(), m) {
				return types.True
			}
		}
		return types.False
	}
	return noOverload(celop.In, v, within)
}

// exactComparisons replaces the operators in, == and != in a program's plan by [sameValue]. For in,
// CEL would look the value up in a Go map, which panics for an ObjectId, a UUID and a Decimal128.
func exactComparisons(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok {
		return node, nil
	}
	switch call.Function() {
	case celop.Equals:
		return comparing(call, func(a, b ref.Val, m *meter) ref.Val { return types.Bool(sameValue(a, b, m)) }), nil
	case celop.NotEquals:
		return comparing(call, func(a, b ref.Val, m *meter) ref.Val { return types.Bool(!sameValue(a, b, m)) }), nil
	case celop.In:
		left, right := call.Args()[0], call.Args()[1]
		if texts := constantTexts(right); texts != nil {
			return amongTexts(left, texts, node), nil
		}
		return comparing(call, func(a, b ref.Val, m *meter) ref.Val { return contains(b, a, m) }), nil
	}
	return node, nil
}

// comparing plans a call with two operands, whose result apply computes.
func comparing(call interpreter.InterpretableCall, apply func(a, b ref.Val, m *meter) ref.Val) *planned {
	left, right := call.Args()[0], call.Args()[1]
	return &planned{call, func(frame *interpreter.ExecutionFrame) ref.Val {
		a := left.Exec(frame)
		if types.IsUnknownOrError(a) {
			return a
		}
		b := right.Exec(frame)
		if types.IsUnknownOrError(b) {
			return b
		}
		result := apply(a, b, meterOf(frame))
		if costs := frame.CostTracker(); costs != nil {
			costs.EvalBinary(frame, call.ID(), call, a, b, result)
		}
		return result
	}}
}

// constantTexts returns the elements of a constant list of texts; nil for any other operand.
func constantTexts(node interpreter.InterpretableV2) map[types.String]bool {
	constant, ok := node.(interpreter.InterpretableConst)
	if !ok {
		return nil
	}
	list, ok := constant.Value().(traits.Lister)
	if !ok {
		return nil
	}
	texts := map[types.String]bool{}
	for _, element := range elementsOf(list) {
		text, ok := element.(types.String)
		if !ok {
			return nil
		}
		texts[text] = true
	}
	return texts
}

// amongTexts plans a search among constant texts. A text that is longer than all of them is not
// hashed.
func amongTexts(left interpreter.InterpretableV2, texts map[types.String]bool, node interpreter.InterpretableV2) *planned {
	longest := 0
	for text := range texts {
		longest = max(longest, len(text))
	}
	return &planned{node, func(frame *interpreter.ExecutionFrame) ref.Val {
		v := left.Exec(frame)
		if types.IsUnknownOrError(v) {
			return v
		}
		text, ok := v.(types.String)
		return types.Bool(ok && len(text) <= longest && texts[text])
	}}
}
