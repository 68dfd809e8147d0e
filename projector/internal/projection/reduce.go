package projection

import (
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/parser"
)

// collectionFunctions declares the functions and macros of lists and maps.
func collectionFunctions() []cel.EnvOption {
	dyn := cel.DynType
	return []cel.EnvOption{
		cel.Function("merge", cel.MemberOverload("penstock_merge", []*cel.Type{dyn, dyn}, cel.MapType(dyn, dyn), cel.BinaryBinding(merge))),
		cel.Macros(
			cel.ReceiverMacro("sum", 2, expandSum),
			cel.ReceiverMacro("reduce", 4, expandReduce),
			cel.ReceiverMacro("reduce", 5, expandReduce)),
	}
}

// expandSum expands list.sum(e, e.price) to list.map(e, e.price).sum().
func expandSum(f cel.MacroExprFactory, list ast.Expr, arguments []ast.Expr) (ast.Expr, *cel.Error) {
	mapped, err := parser.MakeMap(f, list, arguments)
	if err != nil {
		return nil, err
	}
	return f.NewMemberCall("sum", mapped), nil
}

// expandReduce expands list.reduce(total, 0, e, total + e.price), and the form with two
// variables, which are the key and the value of a map or the index and the element of a list.
func expandReduce(f cel.MacroExprFactory, list ast.Expr, arguments []ast.Expr) (ast.Expr, *cel.Error) {
	var names []string
	for i, argument := range arguments[:len(arguments)-1] {
		if i == 1 {
			continue // the initial value
		}
		if argument.Kind() != ast.IdentKind {
			return nil, f.NewError(argument.ID(), "reduce takes the name of the result, its initial value, the name of the element, and the next result, as in list.reduce(total, 0, e, total + e.price)")
		}
		name := argument.AsIdent()
		if slices.Contains(names, name) {
			return nil, f.NewError(argument.ID(), "reduce needs different names for the result and the element")
		}
		if variables[name] {
			return nil, f.NewError(argument.ID(), "the name "+name+" is taken: give the result and the element other names")
		}
		names = append(names, name)
	}
	// The result can have another type after the first step.
	initial := f.NewCall("dyn", arguments[1])
	step, result := arguments[len(arguments)-1], f.NewIdent(names[0])
	if len(names) == 2 {
		return f.NewComprehension(list, names[1], names[0], initial, f.NewLiteral(types.True), step, result), nil
	}
	return f.NewComprehensionTwoVar(list, names[1], names[2], names[0], initial, f.NewLiteral(types.True), step, result), nil
}

// merge returns a map with the entries of two maps. If both have a key, the value is that of the
// second.
func merge(a, b ref.Val) ref.Val {
	first, ok := a.(traits.Mapper)
	second, alsoOK := b.(traits.Mapper)
	if !ok || !alsoOK {
		return noOverload("merge", a, b)
	}
	merged := make(map[ref.Val]ref.Val)
	// A document of the event store can have a field twice; the first one counts.
	for _, e := range sortedEntries(second, nil) {
		if _, ok := merged[e.key]; !ok {
			merged[e.key] = e.value
		}
	}
	for _, e := range sortedEntries(first, nil) {
		if _, has := merged[e.key]; !has {
			merged[e.key] = e.value
		}
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, merged)
}

// addLists adds two lists by a copy. CEL's own sum is a chain of lists, which takes no memory, and each
// access to an element searches the chain. addLists returns nil, so that CEL adds, if one list is empty,
// and for the result of a loop of CEL, which grows in place.
func addLists(_ *meter, args ...ref.Val) ref.Val {
	a, ok := args[0].(traits.Lister)
	b, alsoOK := args[1].(traits.Lister)
	if _, inPlace := a.(traits.MutableLister); inPlace || !ok || !alsoOK || listSize(a) == 0 || listSize(b) == 0 {
		return nil
	}
	return types.NewRefValList(types.DefaultTypeAdapter, append(elementsOf(a), elementsOf(b)...))
}
