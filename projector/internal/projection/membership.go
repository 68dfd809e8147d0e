package projection

import (
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// membership is the operator "in", which compares by [sameValue]. CEL would look the value up in
// a Go map, which panics for an ObjectId, a UUID and a Decimal128.
type membership struct {
	call        interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	// texts are the elements if right is a constant list of texts; nil otherwise.
	texts map[types.String]bool
	// longest is the size of the longest of texts. A longer text is not hashed.
	longest int
}

// exactMembership replaces the operator "in" in a program's plan.
func exactMembership(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok || call.Function() != celop.In {
		return node, nil
	}
	args := call.Args()
	m := &membership{call: call, left: args[0], right: args[1]}
	if constant, ok := args[1].(interpreter.InterpretableConst); ok {
		if list, ok := constant.Value().(traits.Lister); ok {
			m.texts = textsOf(list)
			for text := range m.texts {
				m.longest = max(m.longest, len(text))
			}
		}
	}
	return &planned{node, m.exec}, nil
}

// textsOf returns the elements of a list of texts; nil if an element is of another type.
func textsOf(list traits.Lister) map[types.String]bool {
	texts := map[types.String]bool{}
	for elements := list.Iterator(); elements.HasNext() == types.True; {
		text, ok := elements.Next().(types.String)
		if !ok {
			return nil
		}
		texts[text] = true
	}
	return texts
}

func (m *membership) exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := m.left.Exec(frame)
	if types.IsUnknownOrError(v) {
		return v
	}
	if m.texts != nil {
		text, ok := v.(types.String)
		return types.Bool(ok && len(text) <= m.longest && m.texts[text])
	}
	within := m.right.Exec(frame)
	if types.IsUnknownOrError(within) {
		return within
	}
	result := contains(within, v, meterOf(frame))
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, m.call.ID(), m.call, v, within, result)
	}
	return result
}
