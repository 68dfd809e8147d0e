package projection

import (
	"fmt"
	"regexp"
	"sync"

	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// implementations are the functions of all expressions, by name.
var implementations = sync.OnceValues(func() (map[string]*functions.Overload, error) {
	env, err := common()
	if err != nil {
		return nil, err
	}
	found := map[string]*functions.Overload{}
	for name, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, fmt.Errorf("look up function %s: %w", name, err)
		}
		for _, b := range bindings {
			found[b.Operator] = b
		}
	}
	return found, nil
})

// tableCalls replaces the calls of functions of the [functionTable] in a program's plan. The new
// calls get the meter as their first argument.
func tableCalls(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok {
		return node, nil
	}
	name, args := call.Function(), call.Args()
	f := functionTable[name]
	if f.bound == nil && f.compute == nil {
		return node, nil
	}
	found, err := implementations()
	if err != nil {
		return nil, err
	}
	run := f.run(name, found[name])
	if name == overloads.Matches && constant(args[1]) {
		if run, err = matchConstant(args[1], run); err != nil {
			return nil, err
		}
	}
	meter := &planned{node, func(frame *interpreter.ExecutionFrame) ref.Val { return meterOf(frame) }}
	replaced := interpreter.NewCall(call.ID(), name, "", append([]interpreter.InterpretableV2{meter}, args...), run)
	return &planned{replaced, replaced.Exec}, nil
}

// run returns the implementation of a function with a meter as its first argument.
func (f function) run(name string, impl *functions.Overload) functions.FunctionOp {
	return func(values ...ref.Val) ref.Val {
		m, _ := values[0].(*meter)
		values = values[1:]
		if f.bound != nil {
			var arguments [3]ref.Val
			copy(arguments[:], values)
			f.bound(m, arguments[0], arguments[1], arguments[2])
		}
		if f.compute != nil {
			if v := f.compute(m, values...); v != nil {
				return v
			}
		}
		switch {
		case impl.OperandTrait != 0 && !values[0].Type().HasTrait(impl.OperandTrait):
			return noOverload(name, values[0])
		case len(values) == 1 && impl.Unary != nil:
			return impl.Unary(values[0])
		case len(values) == 2 && impl.Binary != nil:
			return impl.Binary(values[0], values[1])
		}
		return impl.Function(values...)
	}
}

// constant reports whether a node is a constant.
func constant(node interpreter.InterpretableV2) bool {
	_, ok := node.(interpreter.InterpretableConst)
	return ok
}

// matchConstant returns an implementation of matches that compiles its constant pattern once.
func matchConstant(pattern interpreter.InterpretableV2, otherwise functions.FunctionOp) (functions.FunctionOp, error) {
	source, _ := pattern.(interpreter.InterpretableConst).Value().(types.String)
	size, err := types.RegexProgramSize(string(source))
	if err != nil {
		return nil, fmt.Errorf("compile the pattern %s: %w", source, err)
	}
	compiled, err := regexp.Compile(string(source))
	return func(values ...ref.Val) ref.Val {
		text, ok := values[1].(types.String)
		if !ok {
			return otherwise(values...)
		}
		m, _ := values[0].(*meter)
		m.spend(len(text)*size, 0)
		return types.Bool(compiled.MatchString(string(text)))
	}, err
}
