package projection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// maxExpression bounds the source of one expression, in characters.
const maxExpression = 16 << 10

// expression is one compiled right-hand side; safe for concurrent use.
type expression struct {
	source  string
	program cel.Program
	checked *ast.AST
	// canonical is the source in definitions: without comments and unnecessary spaces.
	canonical string
}

// resultKind says which results an expression may have.
type resultKind uint8

const (
	anyValue resultKind = iota
	boolValue
	numberValue
	// nameValue is the name of a field, and idValue the id of an element.
	nameValue
	idValue
	payloadValue
	// listValue is a list, and keyValue the key of a document of a view.
	listValue
	keyValue
)

// issue is a problem in an expression. Lines count from 1 and columns from 0, as in CEL.
type issue struct {
	line, column int
	message      string
}

// compile compiles an expression, and checks its types as far as they are known. It returns
// all problems.
func compile(env *environment, source string, want resultKind) (*expression, []issue) {
	checked, problems := env.compile(source)
	if problems.Err() != nil {
		var issues []issue
		for _, e := range problems.Errors() {
			if strings.Contains(e.Message, "!error!") {
				continue // a consequence of another one
			}
			issues = append(issues, issue{line: e.Location.Line(), column: e.Location.Column(), message: env.clean(e.Message)})
			if strings.HasPrefix(e.Message, "Syntax error") {
				break // the others are mostly consequences of the first
			}
		}
		return nil, issues
	}
	if err := checkResult(checked.OutputType(), want); err != nil {
		return nil, []issue{{line: 1, message: err.Error()}}
	}
	if env.declared != nil {
		// The schema only checks: it must not choose another operator than the values of an event.
		untyped, err := dynamic()
		if err != nil {
			return nil, []issue{{line: 1, message: err.Error()}}
		}
		return compile(untyped, source, want)
	}
	options := []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize),
		cel.CustomDecoratorV2(lenientState(env.state...)), cel.CustomDecoratorV2(exactComparisons),
		cel.CustomDecoratorV2(tableCalls), cel.CustomDecoratorV2(orderedRanges(checked.NativeRep())),
		cel.CustomDecoratorV2(hashedKeys(checked.NativeRep())),
	}
	if canLoop(checked.NativeRep()) {
		options = append(options, cel.CostTracking(callCost{}), cel.CostLimit(costLimit))
	}
	program, err := env.cel.Program(checked, options...)
	if err != nil {
		return nil, []issue{{line: 1, message: env.clean(err.Error())}}
	}
	return &expression{source: source, program: program, checked: checked.NativeRep(), canonical: canonical(env, source, checked)}, nil
}

// planned is a node of a program's plan for which exec computes the result. It is not an
// [interpreter.InterpretableCall], because CEL would replace the calls of some functions.
type planned struct {
	interpreter.InterpretableV2
	exec func(frame *interpreter.ExecutionFrame) ref.Val
}

// Exec is called by the program.
func (p *planned) Exec(frame *interpreter.ExecutionFrame) ref.Val { return p.exec(frame) }

// Eval is Exec on variables alone.
func (p *planned) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, p.exec)
}

var errDuration = errors.New("a duration cannot be stored as BSON: store a number of a unit, such as (timestamp - state.since).getSeconds(), or .total('hours') with a fraction")

// checkResult refuses a type that can never be valid. dyn may be valid.
func checkResult(t *cel.Type, want resultKind) error {
	if want != boolValue && t.TypeName() == types.OptionalType.TypeName() {
		t = t.Parameters()[0]
	}
	kind := t.Kind()
	if kind == types.DynKind || kind == types.AnyKind || kind == types.TypeParamKind {
		return nil
	}
	is := func(kinds ...types.Kind) bool { return slices.Contains(kinds, kind) }
	fits, says := true, ""
	switch want {
	case boolValue:
		fits, says = is(types.BoolKind), "not bool"
	case numberValue:
		fits, says = is(types.IntKind, types.DoubleKind) || t.IsExactType(typeDecimal128), "not a number"
	case nameValue:
		fits, says = is(types.StringKind, types.IntKind, types.DoubleKind), "and a field is named by a text or a whole number: convert it with string(), or a Decimal128 with int()"
	case payloadValue:
		fits, says = is(types.MapKind, types.StructKind), "not a document"
	case listValue:
		fits, says = is(types.ListKind), "not a list"
	case keyValue:
		fits, says = is(types.StringKind, types.IntKind, types.NullTypeKind) || t.IsExactType(typeObjectID) || t.IsExactType(typeUUID), "and "+aboutKeys
	case idValue:
		fits, says = !is(types.ListKind, types.MapKind, types.StructKind, types.NullTypeKind, types.DurationKind, types.TypeKind), "and the id of an element is a text, a number or another single value"
	default:
		if kind == types.DurationKind {
			return errDuration
		}
		if kind == types.TypeKind {
			return fmt.Errorf("gives %s, which cannot be stored as BSON", t)
		}
	}
	if !fits {
		return fmt.Errorf("gives %s, %s", plainType(t.String()), says)
	}
	return nil
}

// eval runs the expression. It unpacks an optional result; ok is false if that is empty.
func (x *expression) eval(s *scope) (result ref.Val, ok bool, err error) {
	v, _, err := x.program.Eval(s)
	if limit := s.event.meter.exceeded; limit != nil {
		return nil, false, limit
	}
	if err != nil {
		return nil, false, explain(err)
	}
	if optional, is := v.(*types.Optional); is {
		if !optional.HasValue() {
			return nil, false, nil
		}
		v = optional.GetValue()
	}
	return v, true, nil
}

// run is eval with a trace, and with an error that names the place. word is the part of the
// operation that has the expression; empty if the operation has one only.
func (x *expression) run(s *scope, word string) (ref.Val, bool, error) {
	v, ok, err := x.eval(s)
	if s.trace != nil {
		s.trace.note(s.part(word), x, s, v, err)
	}
	return v, ok, x.failed(s, word, err)
}

// failed names the place in an error of the expression or of what is done with its result; nil
// if err is nil.
func (x *expression) failed(s *scope, word string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", s.part(word), x.source, err)
}

// holds reports whether a condition holds. One that is nil always does. empty is the error for
// an empty optional; nil if the condition does not hold then.
func (x *expression) holds(s *scope, word string, empty error) (bool, error) {
	if x == nil {
		return true, nil
	}
	v, ok, err := x.run(s, word)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, x.failed(s, word, empty)
	}
	holds, ok := v.(types.Bool)
	if !ok {
		return false, x.failed(s, word, errNotBool)
	}
	return bool(holds), nil
}

var errNotBool = errors.New("the result is not a bool")

// explain adds the remedy to common errors.
func explain(err error) error {
	text := err.Error()
	if len(text) > maxErrorText {
		// CEL's errors repeat the text that a function refuses.
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
		err = errors.New(text)
	}
	if strings.Contains(text, "cost limit exceeded") {
		return fmt.Errorf("%w (an expression may take %d steps)", errCost, costLimit)
	}
	if said := plain(text); said != text {
		return errors.New(said)
	}
	return err
}

// maxErrorText bounds the error of an evaluation, in bytes.
const maxErrorText = 1 << 10

var errCost = errors.New("evaluation took too long")
