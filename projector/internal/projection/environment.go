package projection

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// common is the environment of all expressions, except for the variable payload. It is
// built once, because that takes longer than compiling all expressions of a projection.
var common = sync.OnceValues(func() (*cel.Env, error) {
	options, err := standardLibrary()
	if err != nil {
		return nil, err
	}
	options = append(options,
		cel.Variable(varEvent, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(varMetadata, cel.DynType),
		cel.Variable(varAggregateID, cel.StringType),
		cel.Variable(varAggregateType, cel.StringType),
		cel.Variable(varEventID, cel.IntType),
		cel.Variable(varEventType, cel.StringType),
		cel.Variable(varTimestamp, cel.TimestampType),
		cel.Variable(varState, cel.MapType(cel.StringType, cel.DynType)),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		// Only with this name does CEL append to the result of a loop in place.
		cel.EnableHiddenAccumulatorName(true),
		// ExtendedValidations are not used, because they require that all values of a map
		// literal have the same type.
		cel.ASTValidators(cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(), literalValidator{}),
		ext.Strings(ext.StringsVersion(4), ext.StringsMaxPrecision(maxPrecision)),
		ext.Math(),
		ext.Lists(ext.ListsMaxRangeSize(maxRange)),
		ext.Sets(),
		ext.Bindings(),
		ext.TwoVarComprehensions(),
		ext.Regex(),
		jsonFunction(),
	)
	return cel.NewCustomEnv(slices.Concat(options, opaqueConversions(), timeFunctions(), collectionFunctions(), numberFunctions())...)
})

// environment compiles the expressions of one event type. It is not safe for concurrent
// use.
type environment struct {
	cel *cel.Env
	// declared is nil for an event type without a schema.
	declared *declaredTypes
	// state are the names of the state.
	state []string
}

// dynamic is the environment of event types without a schema: the type of payload is not
// known.
var dynamic = sync.OnceValues(func() (*environment, error) {
	base, err := common()
	if err != nil {
		return nil, err
	}
	return shared(base, []string{varState}, cel.Variable(varPayload, cel.DynType))
})

// ofView is the environment of the expressions of a view, which depend on a part only.
var ofView = sync.OnceValues(func() (*environment, error) {
	base, err := dynamic()
	if err != nil {
		return nil, err
	}
	return shared(base.cel, []string{varState, varPart}, cel.Variable(varPart, cel.MapType(cel.StringType, cel.DynType)), cel.Variable(varElement, cel.DynType))
})

// shared makes an environment for concurrent use.
func shared(base *cel.Env, state []string, variables ...cel.EnvOption) (*environment, error) {
	env, err := base.Extend(variables...)
	if err != nil {
		return nil, err
	}
	// The first undeclared name makes CEL collect all names in the environment, without a
	// lock against a concurrent compilation. So that happens before the environment is shared.
	_, _ = env.Compile("undeclared")
	return &environment{cel: env, state: state}, nil
}

// newEnvironment makes the environment of an event type; s is nil if it has no
// schema.
func newEnvironment(s *schema) (*environment, error) {
	if s == nil {
		return dynamic()
	}
	base, err := common()
	if err != nil {
		return nil, err
	}
	declared := &declaredTypes{Provider: base.CELTypeProvider(), documents: map[string]*schema{}}
	s.collect(declared.documents)
	env, err := base.Extend(cel.CustomTypeProvider(declared), cel.Variable(varPayload, s.celType))
	return &environment{cel: env, declared: declared, state: []string{varState}}, err
}

// declaredTypes tells CEL the fields of declared documents.
type declaredTypes struct {
	types.Provider
	documents map[string]*schema
	// missed are the suggestions for undeclared fields, by field, since compiling began.
	missed map[string]string
}

// FindStructType is called by CEL to look up a type.
func (d *declaredTypes) FindStructType(document string) (*types.Type, bool) {
	if _, ok := d.documents[document]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(document)), true
	}
	return d.Provider.FindStructType(document)
}

// FindStructFieldType is called by CEL to check a field.
func (d *declaredTypes) FindStructFieldType(document, field string) (*types.FieldType, bool) {
	s, ok := d.documents[document]
	if !ok {
		return d.Provider.FindStructFieldType(document, field)
	}
	if f, ok := s.fields[field]; ok {
		// Without accessors, CEL reads the field like the entry of a map.
		return &types.FieldType{Type: f.celType}, true
	}
	d.missed[field] = s.suggestion(field)
	return nil, false
}

// FindStructFieldNames is called by CEL to list fields.
func (d *declaredTypes) FindStructFieldNames(document string) ([]string, bool) {
	if s, ok := d.documents[document]; ok {
		return sortedKeys(s.fields), true
	}
	return d.Provider.FindStructFieldNames(document)
}

// compile parses and checks a source.
func (e *environment) compile(source string) (*cel.Ast, *cel.Issues) {
	if e.declared != nil {
		e.declared.missed = map[string]string{}
	}
	compiled, issues := e.cel.Compile(source)
	if !slices.ContainsFunc(issues.Errors(), func(err *cel.Error) bool { return oneIsNull.MatchString(err.Message) }) {
		return compiled, issues
	}
	// A choice between null and a text has no type in CEL.
	parsed, unparsed := e.cel.Parse(source)
	if unparsed.Err() != nil {
		return nil, unparsed
	}
	looseNulls(parsed.NativeRep())
	compiled, again := e.cel.Check(parsed)
	if again.Err() != nil {
		return nil, issues
	}
	return compiled, again
}

// oneIsNull is CEL's message for a choice between null and another value.
var oneIsNull = regexp.MustCompile(`^found no matching overload for '_\?_:_' applied to '\(.*(, null, .*|, null)\)'$`)

// looseNulls writes null as dyn(null) in all choices.
func looseNulls(parsed *ast.AST) {
	factory, id := ast.NewExprFactory(), ast.MaxID(parsed)
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != celop.Conditional {
			return
		}
		for _, value := range e.AsCall().Args()[1:] {
			if value.Kind() == ast.LiteralKind && value.AsLiteral() == types.NullValue {
				value.SetKindCase(factory.NewCall(value.ID(), "dyn", factory.NewLiteral(id, types.NullValue)))
				id++
			}
		}
	}))
}

// clean removes what CEL says about containers, which projections do not have, and adds the
// remedy for mistakes about declared events.
func (e *environment) clean(message string) string {
	message = strings.ReplaceAll(message, " (in container '')", "")
	if strings.HasPrefix(message, "Syntax error: ") {
		return syntaxError(message)
	}
	if name, ok := strings.CutPrefix(message, "undeclared reference to '"); ok {
		return e.undeclared(strings.TrimSuffix(name, "'"))
	}
	if e.declared == nil {
		return plain(message)
	}
	if field, ok := strings.CutPrefix(message, "undefined field '"); ok {
		if suggestion, ok := e.declared.missed[strings.TrimSuffix(field, "'")]; ok {
			return suggestion + " (the section events declares it)"
		}
	}
	for name, s := range e.declared.documents {
		if strings.Contains(message, "'_[_]'") && strings.Contains(message, "("+name+",") {
			return fmt.Sprintf("%s (the section events declares %s, so write %s.field)", message, s.name, s.name)
		}
	}
	return plain(message)
}
