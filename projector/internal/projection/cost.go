package projection

import (
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
)

// costLimit bounds the steps of one evaluation of an expression that can loop. The unit is
// CEL's, about one field access. A loop costs a few units for each element, so arrays of ten
// thousand elements stay below it. CEL charges a call after it has returned, so functions whose
// result can be much larger than their arguments, or take much longer, have a [bound] too.
const costLimit = 100_000

const (
	// smallText is the size of a text in bytes up to which a call with it is one step.
	smallText = 1 << 10
	// bytesPerStep is how many bytes of larger texts a call reads or writes in a step.
	bytesPerStep = 128
	// zoneSteps are the steps of a call that loads a time zone.
	zoneSteps = 20
)

// canLoop reports whether an expression has a macro. CEL makes objects to count the cost of an
// evaluation, which takes as long as a simple expression, so others are not counted.
func canLoop(checked *ast.AST) (loops bool) {
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		loops = loops || e.Kind() == ast.ComprehensionKind
	}))
	return loops
}

// callCost gives the cost of a call without a [bound] by the texts that it reads and writes. It implements
// [interpreter.ActualCostEstimator].
type callCost struct{}

// CallCost is called by CEL.
func (callCost) CallCost(function, _ string, arguments []ref.Val, result ref.Val) *uint64 {
	if functionTable[function].bound != nil {
		return &oneStep
	}
	n := largeText(result) / bytesPerStep
	for _, v := range arguments {
		n += largeText(v) / bytesPerStep
	}
	if zoned[function] || strings.HasPrefix(function, "get") && len(arguments) == 2 {
		n += zoneSteps
	}
	if n == 0 {
		return &oneStep
	}
	steps := uint64(n + 1)
	return &steps
}

var oneStep uint64 = 1

// zoned are the functions that take a time zone, besides get….
var zoned = map[string]bool{"plus": true, "startOf": true, "strftime": true}

// largeText is the size of a text; 0 if it is not larger than [smallText].
func largeText(v ref.Val) int {
	if n := textSize(v); n > smallText {
		return n
	}
	return 0
}
