package projection

import (
	"cel.dev/cel-go/common/ast"
	celoperators "cel.dev/cel-go/common/operators"
)

// costLimit bounds the steps of one evaluation of an expression that can loop. The unit is
// CEL's, about one field access. A loop costs a few units for each element, so arrays of ten
// thousand elements stay below it. The [meter] charges what a step reads and builds.
//
// CEL counts the cost of each evaluation in maps. That takes as long as a simple
// expression, so expressions that cannot loop are not counted.
const costLimit = 100_000

// straight are the functions that read each argument at most once, so a call takes no
// longer than reading the event and the document. The cost of all other functions, such as
// those of sets and regular expressions, is counted.
var straight = map[string]bool{
	celoperators.Conditional: true, celoperators.LogicalAnd: true, celoperators.LogicalOr: true, celoperators.LogicalNot: true,
	celoperators.Equals: true, celoperators.NotEquals: true, celoperators.Less: true, celoperators.LessEquals: true,
	celoperators.Greater: true, celoperators.GreaterEquals: true, celoperators.Add: true, celoperators.Subtract: true,
	celoperators.Multiply: true, celoperators.Divide: true, celoperators.Modulo: true, celoperators.Negate: true,
	celoperators.Index: true, celoperators.OptIndex: true, celoperators.OptSelect: true, celoperators.In: true,

	"size": true, "startsWith": true, "endsWith": true, "lowerAscii": true, "upperAscii": true, "trim": true,
	"int": true, "uint": true, "double": true, "string": true, "bool": true, "bytes": true, "dyn": true, "type": true,
	"timestamp": true, "duration": true, "optional.of": true, "optional.none": true, "optional.ofNonZeroValue": true,
	"or": true, "orValue": true, "hasValue": true, "value": true,
	"math.@max": true, "math.@min": true, "math.abs": true, "math.ceil": true, "math.floor": true, "math.round": true, "math.trunc": true, "math.sign": true,
	"getDate": true, "getDayOfMonth": true, "getDayOfWeek": true, "getDayOfYear": true, "getFullYear": true,
	"getHours": true, "getMilliseconds": true, "getMinutes": true, "getMonth": true, "getSeconds": true,
	"plus": true, "startOf": true, "strftime": true, "total": true, "decimal": true, "math.divide": true, "sum": true, "merge": true,
}

// canLoop reports whether the time of an evaluation can grow faster than the expression
// and the values that it reads: through a macro, or a function that is not [straight].
func canLoop(checked *ast.AST) bool {
	loops := false
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			loops = true
		case ast.CallKind:
			loops = loops || !straight[e.AsCall().FunctionName()]
		}
	}))
	return loops
}
