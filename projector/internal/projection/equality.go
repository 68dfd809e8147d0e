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

// equality is == or != by [sameValue].
type equality struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	negated     bool
}

// numericEquality replaces == and != in a program's plan.
func numericEquality(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok || call.Function() != celop.Equals && call.Function() != celop.NotEquals {
		return node, nil
	}
	args := call.Args()
	return &equality{call, args[0], args[1], call.Function() == celop.NotEquals}, nil
}

// Exec is called by the program.
func (e *equality) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a := e.left.Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := e.right.Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	result := types.Bool(sameValue(a, b, meterOf(frame)) != e.negated)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, e.ID(), e, a, b, result)
	}
	return result
}

// Eval is Exec on variables alone.
func (e *equality) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, e.Exec)
}
