package projection

import (
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// stateAttribute is a path that begins at the variable state, or part in a view. An absent field on the path
// reads as null, and so do the fields of null, because conditions compare fields of a
// document that does not exist before the first event. has() and .? still distinguish an
// absent field from null.
type stateAttribute struct {
	interpreter.InterpretableAttribute
	name       string
	qualifiers []interpreter.Qualifier
}

var _ interpreter.Attribute = (*stateAttribute)(nil)

// lenientState replaces the variables with these names, which are the state, in a program's
// plan.
func lenientState(names ...string) interpreter.InterpretableDecoratorV2 {
	return func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		a, ok := node.(interpreter.InterpretableAttribute)
		if !ok {
			return node, nil
		}
		named, ok := a.Attr().(interpreter.NamespacedAttribute)
		if !ok || len(named.Qualifiers()) > 0 {
			return node, nil
		}
		if all := named.CandidateVariableNames(); len(all) == 1 && slices.Contains(names, all[0]) {
			return &stateAttribute{InterpretableAttribute: a, name: all[0]}, nil
		}
		return node, nil
	}
}

// Attr is the attribute itself: it resolves as a part of others too.
func (a *stateAttribute) Attr() interpreter.Attribute { return a }

// AddQualifier adds a step to the path.
func (a *stateAttribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	a.qualifiers = append(a.qualifiers, q)
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

// Resolve returns the value at the path.
func (a *stateAttribute) Resolve(vars interpreter.Activation) (any, error) {
	v, err := a.InterpretableAttribute.Resolve(vars)
	if err == nil {
		return v, nil
	}
	return a.resolveAbsent(vars, err)
}

// resolveAbsent follows the path again after an error. It keeps the error unless an absent
// field is the reason.
func (a *stateAttribute) resolveAbsent(vars interpreter.Activation, failed error) (any, error) {
	value, ok := vars.ResolveName(a.name)
	if !ok {
		return nil, failed
	}
	for _, q := range a.qualifiers {
		if q.IsOptional() {
			if value == types.NullValue {
				return types.OptionalNone, nil
			}
			return nil, failed
		}
		next, err := q.Qualify(vars, value)
		if err != nil {
			if _, isMap := value.(traits.Mapper); !isMap && value != types.NullValue {
				return nil, failed
			}
			// The step itself may fail, for example on an absent field of the payload.
			if _, present, err := q.QualifyIfPresent(vars, value, true); err != nil || present {
				return nil, failed
			}
			next = types.NullValue
		}
		value = next
	}
	return value, nil
}

// Exec is called by the program.
func (a *stateAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v, err := a.Resolve(frame)
	var result ref.Val
	if err != nil {
		result = types.LabelErrNode(a.ID(), types.WrapErr(err))
	} else {
		result = a.Adapter().NativeToValue(v)
	}
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalAttribute(a.ID(), false, result)
	}
	return result
}

// Eval is Exec on variables alone.
func (a *stateAttribute) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, a.Exec)
}
