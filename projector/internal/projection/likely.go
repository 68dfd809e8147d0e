package projection

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	celoperators "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// likelyCost estimates the maximum number of steps of an evaluation over values of a
// likely size; 0 if there is no estimate.
func likelyCost(checked *ast.AST) uint64 {
	estimate, err := cost.Cost(checked, likelySizes{collections: collectionsIn(checked)})
	if err != nil {
		return 0
	}
	return estimate.Max
}

// likelySizes returns likely sizes of arrays, maps and texts.
type likelySizes struct {
	// collections are the ids of the expressions whose values must be arrays or maps. For
	// a field without a declared type, its use is the only hint at its type.
	collections map[int64]bool
}

// EstimateSize implements [cost.Estimator].
func (s likelySizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	return s.size(node.Type(), node.Expr())
}

// EstimateCallCost implements [cost.Estimator]. It overrides CEL's estimate only for
// orValue: CEL does not bound the size of the result, because it does not ask for the
// size of a value inside an optional.
func (s likelySizes) EstimateCallCost(_, overload string, _ *cost.AstNode, arguments []cost.AstNode) *cost.CallEstimate {
	if overload != overloads.OptionalOrValueValue || len(arguments) != 1 {
		return nil
	}
	size := s.size(arguments[0].Type(), arguments[0].Expr())
	size.Elem = &cost.SizeEstimate{Max: likelyCharacters}
	return &cost.CallEstimate{CostEstimate: cost.FixedCostEstimate(1), ResultSize: size}
}

// size returns the likely size of a value. A value that is not a collection is treated as
// a text, because other values are not larger.
func (s likelySizes) size(t *types.Type, e ast.Expr) *cost.SizeEstimate {
	if kind := t.Kind(); kind == types.ListKind || kind == types.MapKind || e != nil && s.collections[e.ID()] {
		return &cost.SizeEstimate{Max: likelyElements}
	}
	return &cost.SizeEstimate{Max: likelyCharacters}
}

// collectionsIn finds the expressions over which the program loops, those that the
// operator in searches, and those from which their values come.
func collectionsIn(checked *ast.AST) map[int64]bool {
	f := collectionFinder{found: map[int64]bool{}, bound: map[string][]ast.Expr{}}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			c := e.AsComprehension()
			f.bound[c.AccuVar()] = append(f.bound[c.AccuVar()], c.AccuInit())
		}
	}))
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case e.Kind() == ast.ComprehensionKind:
			f.add(e.AsComprehension().IterRange())
		case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == celoperators.In:
			f.add(e.AsCall().Args()[1])
		}
	}))
	return f.found
}

// collectionFinder collects the expressions that produce a collection.
type collectionFinder struct {
	found map[int64]bool
	// bound holds the expressions that cel.bind assigns to each variable name.
	bound map[string][]ast.Expr
}

func (f *collectionFinder) add(e ast.Expr) {
	if f.found[e.ID()] {
		return
	}
	f.found[e.ID()] = true
	switch e.Kind() {
	case ast.IdentKind:
		for _, value := range f.bound[e.AsIdent()] {
			f.add(value)
		}
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case celoperators.Conditional:
			f.add(call.Args()[1])
			f.add(call.Args()[2])
		case celoperators.Add, "dyn", "orValue":
			for _, argument := range call.Args() {
				f.add(argument)
			}
		}
	}
}
