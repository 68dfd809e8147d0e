package project

import (
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// equality is == or != that compares a Decimal128 by value on either side. CEL calls only
// the left operand's method, and its own numbers do not support Decimal128.
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
	if isDecimal(b) {
		a, b = b, a
	}
	equal := types.Equal(a, b)
	if e.negated {
		equal = types.Bool(equal != types.True)
	}
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, e.ID(), e, a, b, equal)
	}
	return equal
}

// Eval is Exec on variables alone.
func (e *equality) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, e.Exec)
}
