package projection

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// meteredCall is a call of a function that has a [price]. CEL charges a call only after it
// has returned, so one call could take hours or all of the memory.
type meteredCall struct {
	call  interpreter.InterpretableCall
	args  []interpreter.InterpretableV2
	impl  *functions.Overload
	price price
	// guard returns an error for a second argument with which equal events could have different
	// results; nil if there is no such argument.
	guard func(b ref.Val) error
	// pattern is the regular expression of matches if it is a constant, and instructions
	// its size.
	pattern      *regexp.Regexp
	instructions int
}

// implementations are the functions of all expressions, by overload and by name.
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
			found[b.Operator] = extend(b, extended[name])
		}
	}
	found[mapInsert] = &functions.Overload{Operator: mapInsert, Function: insertEntries, Binary: func(a, b ref.Val) ref.Val { return insertEntries(a, b) }}
	return found, nil
})

// extend lets another function compute the result, unless that returns nil.
func extend(b *functions.Overload, by func(...ref.Val) ref.Val) *functions.Overload {
	if by == nil {
		return b
	}
	e := *b
	e.Unary, e.Binary = nil, nil
	e.Function = func(arguments ...ref.Val) ref.Val {
		if v := by(arguments...); v != nil {
			return v
		}
		switch {
		case len(arguments) == 1 && b.Unary != nil:
			return b.Unary(arguments[0])
		case len(arguments) == 2 && b.Binary != nil:
			return b.Binary(arguments[0], arguments[1])
		}
		return b.Function(arguments...)
	}
	return &e
}

// mapInsert is the function with which transformMap and transformMapEntry build a map.
const mapInsert = "cel.@mapInsert"

// insertEntries replaces CEL's own [mapInsert], which visits all entries of the map for each
// new one.
func insertEntries(args ...ref.Val) ref.Val {
	target, ok := args[0].(traits.Mapper)
	if !ok {
		return noOverload(mapInsert, args[0], args[1])
	}
	if len(args) > 2 {
		return types.InsertMapKeyValue(target, args[1], args[2])
	}
	from, ok := args[1].(traits.Mapper)
	if !ok {
		return noOverload(mapInsert, target, args[1])
	}
	for _, e := range sortedEntries(from, nil) {
		next := types.InsertMapKeyValue(target, e.key, e.value)
		if target, ok = next.(traits.Mapper); !ok {
			return next
		}
	}
	return target
}

// metered replaces the calls of functions that have a price in a program's plan.
func metered(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok {
		return node, nil
	}
	p, ok := prices[call.Function()]
	guard := guardOf(call)
	if !ok || constant(call.Args()...) && guard == nil && extended[call.Function()] == nil {
		return node, nil
	}
	found, err := implementations()
	if err != nil {
		return nil, err
	}
	// The function chooses by the types of its arguments: a driver can have stored a number in
	// another type than the declared one, by which CEL has chosen an overload.
	impl := found[call.Function()]
	if impl == nil {
		impl = found[call.OverloadID()]
	}
	if impl == nil {
		return node, nil
	}
	c := &meteredCall{call: call, args: call.Args(), impl: impl, price: p, guard: guard}
	if call.Function() == overloads.Matches && constant(c.args[1]) {
		if err := c.compile(); err != nil {
			return nil, err
		}
	}
	return &planned{node, c.exec}, nil
}

// constant reports whether all nodes are constants.
func constant(nodes ...interpreter.InterpretableV2) bool {
	for _, node := range nodes {
		if _, ok := node.(interpreter.InterpretableConst); !ok {
			return false
		}
	}
	return true
}

// compile compiles a constant pattern once.
func (c *meteredCall) compile() (err error) {
	text, ok := c.args[1].(interpreter.InterpretableConst).Value().(types.String)
	if !ok {
		return nil
	}
	if c.instructions, err = types.RegexProgramSize(string(text)); err != nil {
		return fmt.Errorf("compile the pattern %s: %w", text, err)
	}
	c.pattern, err = regexp.Compile(string(text))
	return err
}

func (c *meteredCall) exec(frame *interpreter.ExecutionFrame) ref.Val {
	// Most calls have one or two arguments. A slice of them would be an allocation.
	a := c.args[0].Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	var b ref.Val
	if len(c.args) > 1 {
		if b = c.args[1].Exec(frame); types.IsUnknownOrError(b) {
			return b
		}
	}
	if len(c.args) > 2 {
		return c.callMany(frame, a, b)
	}
	if c.price.always || textSize(a) > smallText || textSize(b) > smallText {
		c.charge(frame, a, b, nil)
	}
	result := types.LabelErrNode(c.call.ID(), c.run(a, b))
	if costs := frame.CostTracker(); costs != nil {
		if b == nil {
			costs.EvalUnary(frame, c.call.ID(), c.call, a, result)
		} else {
			costs.EvalBinary(frame, c.call.ID(), c.call, a, b, result)
		}
	}
	return result
}

// guardOf returns the guard of a function with two arguments; nil if it needs none.
func guardOf(call interpreter.InterpretableCall) func(ref.Val) error {
	switch {
	case len(call.Args()) != 2:
		return nil
	case call.Function() == "format":
		return refuseKeysThatPrintAlike
	case strings.HasPrefix(call.Function(), "get"): // its second argument is a time zone
		return refuseLocalZone
	}
	return nil
}

// refuseLocalZone refuses the time zone of the process, which can differ between two projectors
// that fold the same event.
func refuseLocalZone(zone ref.Val) error {
	if zone == types.String("Local") || zone == types.String("localtime") {
		return fmt.Errorf("time zone %v is that of the projector, so equal events could have different results: name a zone, such as Europe/Berlin", zone)
	}
	return nil
}

// refuseKeysThatPrintAlike refuses what [keysPrintAlike] finds.
func refuseKeysThatPrintAlike(arguments ref.Val) error {
	if keysPrintAlike(arguments) {
		return errors.New("format cannot write a map in which two keys have the same text, such as 1 and '1': equal events could have different results")
	}
	return nil
}

// run calls the function with one or two arguments.
func (c *meteredCall) run(a, b ref.Val) ref.Val {
	if c.guard != nil {
		if err := c.guard(b); err != nil {
			return types.WrapErr(err)
		}
	}
	switch {
	case c.impl.OperandTrait != 0 && !a.Type().HasTrait(c.impl.OperandTrait):
		return noOverload(c.call.Function(), a)
	case c.pattern != nil:
		if text, ok := a.(types.String); ok {
			return types.Bool(c.pattern.MatchString(string(text)))
		}
		return c.impl.Binary(a, b)
	case b == nil && c.impl.Unary != nil:
		return c.impl.Unary(a)
	case b == nil:
		return c.impl.Function(a)
	case c.impl.Binary != nil:
		return c.impl.Binary(a, b)
	}
	return c.impl.Function(a, b)
}

// callMany calls a function with more than two arguments.
func (c *meteredCall) callMany(frame *interpreter.ExecutionFrame, a, b ref.Val) ref.Val {
	values := append(make([]ref.Val, 0, len(c.args)), a, b)
	for _, arg := range c.args[2:] {
		v := arg.Exec(frame)
		if types.IsUnknownOrError(v) {
			return v
		}
		values = append(values, v)
	}
	c.charge(frame, a, b, values[2])
	result := types.LabelErrNode(c.call.ID(), c.impl.Function(values...))
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalVarArgs(frame, c.call.ID(), c.call, values, result)
	}
	return result
}

func (c *meteredCall) charge(frame *interpreter.ExecutionFrame, a, b, third ref.Val) {
	m := meterOf(frame)
	if c.pattern != nil {
		m.spend(textSize(a)*c.instructions, 0)
		return
	}
	c.price.charge(m, a, b, third)
}
