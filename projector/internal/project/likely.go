package project

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	celoperators "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// likelyCost estimates the most steps of an evaluation over values of a likely size; 0 if
// there is no estimate.
func likelyCost(checked *ast.AST) uint64 {
	estimate, err := cost.Cost(checked, likelySizes{collections: collectionsIn(checked)})
	if err != nil {
		return 0
	}
	return estimate.Max
}

// likelySizes gives arrays and texts their likely sizes.
type likelySizes struct {
	// collections are the expressions whose values must be arrays or maps, by their id.
	// A field without a declared type has no other sign of what it holds.
	collections map[int64]bool
}

// EstimateSize implements [cost.Estimator].
func (s likelySizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	return s.size(node.Type(), node.Expr())
}

// EstimateCallCost implements [cost.Estimator]. Only orValue costs something else than CEL
// says: CEL does not bound the size of its result, because it asks for no size of a value
// inside an optional.
func (s likelySizes) EstimateCallCost(_, overload string, _ *cost.AstNode, arguments []cost.AstNode) *cost.CallEstimate {
	if overload != overloads.OptionalOrValueValue || len(arguments) != 1 {
		return nil
	}
	size := s.size(arguments[0].Type(), arguments[0].Expr())
	size.Elem = &cost.SizeEstimate{Max: likelyCharacters}
	return &cost.CallEstimate{CostEstimate: cost.FixedCostEstimate(1), ResultSize: size}
}

// size is the likely size of a value. Everything that is not a collection is taken for a
// text, because no other value without a declared type is larger.
func (s likelySizes) size(t *types.Type, e ast.Expr) *cost.SizeEstimate {
	if kind := t.Kind(); kind == types.ListKind || kind == types.MapKind || e != nil && s.collections[e.ID()] {
		return &cost.SizeEstimate{Max: likelyElements}
	}
	return &cost.SizeEstimate{Max: likelyCharacters}
}

// collectionsIn finds the expressions that are looped over or searched by in, and those
// that their values come from.
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

// collectionFinder collects the expressions of a collection's value.
type collectionFinder struct {
	found map[int64]bool
	// bound has what cel.bind gives the variables of a name.
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
