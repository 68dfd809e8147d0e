package projection

import (
	"testing"

	celoperators "cel.dev/cel-go/common/operators"
)

// unpriced are the functions whose time and memory do not depend on the size of their
// arguments, and the operators that are charged where they read.
var unpriced = map[string]bool{
	celoperators.Conditional: true, celoperators.LogicalAnd: true, celoperators.LogicalOr: true, celoperators.LogicalNot: true,
	celoperators.NotStrictlyFalse: true, "__not_strictly_false__": true, celoperators.Negate: true,
	celoperators.Subtract: true, celoperators.Multiply: true, celoperators.Divide: true, celoperators.Modulo: true,
	celoperators.Equals: true, celoperators.NotEquals: true, celoperators.In: true, celoperators.OldIn: true, "in": true,
	celoperators.Index: true, celoperators.OptIndex: true, celoperators.OptSelect: true,
	"dyn": true, "type": true, reduceStep: true, "total": true, "first": true, "last": true, "lists.range": true, "cel.@block": true,
	"optional.none": true, "optional.of": true, "optional.ofNonZeroValue": true, "value": true, "or": true, "orValue": true,
	"math.bitAnd": true, "math.bitNot": true, "math.bitOr": true, "math.bitShiftLeft": true, "math.bitShiftRight": true,
	"math.bitXor": true,
}

// TestEveryFunctionHasAPrice finds the functions that a new version of CEL adds.
func TestEveryFunctionHasAPrice(t *testing.T) {
	t.Parallel()
	env, err := common()
	if err != nil {
		t.Fatal(err)
	}
	functions := env.Functions()
	for name := range functions {
		_, priced := prices[name]
		if priced == unpriced[name] {
			t.Errorf("function %s: it needs a price, or a place among the functions that need none", name)
		}
	}
	for name := range prices {
		if functions[name] == nil {
			t.Errorf("price of %s: there is no such function", name)
		}
	}
}
