package projection

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// function is what this package adds to a function of CEL or of its own.
type function struct {
	// bound is nil if CEL's charge after the call is early enough.
	bound bound
	// compute computes the result instead of CEL. CEL does if compute is nil, or returns nil.
	compute func(m *meter, arguments ...ref.Val) ref.Val
	// texts return errors for constant texts with which the function would always fail.
	texts texts
}

// texts are checks of texts, by the position of the argument.
type texts map[int]func(text string) error

// mapInsert is the function with which transformMap and transformMapEntry build a map.
const mapInsert = "cel.@mapInsert"

// functionTable are these functions, by name. The operators == and != and in are charged where
// they read, and so is the access to fields and elements.
var functionTable = func() map[string]function {
	table := map[string]function{
		celop.Add: {bound: added, compute: addLists}, "strings.quote": {bound: listed},
		"lists.range": {bound: ranged},
		"indexOf":     {bound: searched}, "lastIndexOf": {bound: searched},
		"replace": {bound: replaced}, "split": {bound: splitText}, "join": {bound: joined},
		"format":  {bound: formatted, compute: refuseKeysThatPrintAlike},
		"matches": {bound: matched}, "regex.extract": {bound: matched},
		"regex.extractAll": {bound: extracted}, "regex.replace": {bound: regexReplaced},

		"distinct": {bound: distinct}, "reverse": {bound: listed}, "slice": {bound: listed}, "flatten": {bound: copied},
		"optional.unwrap": {bound: copied}, "unwrapOpt": {bound: copied},
		"sort":                  {bound: sorted, compute: func(_ *meter, a ...ref.Val) ref.Val { return sortList(a[0], a[0]) }},
		"@sortByAssociatedKeys": {bound: sorted, compute: func(_ *meter, a ...ref.Val) ref.Val { return sortList(a[0], a[1]) }},
		"sum":                   {bound: summed},
		"merge":                 {bound: mergedMaps},
		"json":                  {bound: parsed, compute: func(m *meter, a ...ref.Val) ref.Val { return parseJSON(m, a[0]) }},
		mapInsert:               {bound: inserted, compute: insertEntries},
		"math.@max":             {bound: listed, compute: func(_ *meter, a ...ref.Val) ref.Val { return extremeOf("math.@max", 1, a) }},
		"math.@min":             {bound: listed, compute: func(_ *meter, a ...ref.Val) ref.Val { return extremeOf("math.@min", -1, a) }},

		"plus":     {texts: texts{1: func(unit string) error { _, err := plus(epoch, 0, unit, epoch.Location()); return err }, 2: checkZone}},
		"startOf":  {texts: texts{0: func(unit string) error { _, err := startOf(epoch, unit, epoch.Location()); return err }, 1: checkZone}},
		"strftime": {texts: texts{0: func(format string) error { _, err := strftime(epoch, format); return err }, 1: checkZone}},
		"total":    {texts: texts{0: checkLength}}, "duration": {texts: texts{0: checkDuration, 1: checkLength}},
		"math.round": {texts: texts{2: fold.CheckRounding}}, "math.divide": {texts: texts{3: fold.CheckRounding}},
		"uuid":    {texts: texts{1: checkOrder}},
		"decimal": {texts: texts{0: func(text string) error { _, err := fold.ParseDecimal(text); return err }}},
	}
	for _, name := range []string{"sets.contains", "sets.equivalent", "sets.intersects", "hasAll", "hasAny", "hasOnly", "hasExactly"} {
		table[name] = function{bound: paired}
	}
	for _, part := range []string{"Date", "DayOfMonth", "DayOfWeek", "DayOfYear", "FullYear", "Hours", "Milliseconds", "Minutes", "Month", "Seconds"} {
		table["get"+part] = function{compute: refuseLocalZone}
	}
	return table
}()

// insertEntries replaces CEL's own [mapInsert], which visits all entries of the map for each
// new one.
func insertEntries(_ *meter, args ...ref.Val) ref.Val {
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

// refuseLocalZone refuses what [checkNotLocal] refuses.
func refuseLocalZone(_ *meter, a ...ref.Val) ref.Val {
	if len(a) == 2 {
		if err := checkNotLocal(a[1]); err != nil {
			return types.WrapErr(err)
		}
	}
	return nil
}

// checkNotLocal refuses the time zone of the process, which can differ between two projectors
// that fold the same event.
func checkNotLocal(zone ref.Val) error {
	if zone == types.String("Local") || zone == types.String("localtime") {
		return fmt.Errorf("time zone %v is that of the projector, so equal events could have different results: name a zone, such as Europe/Berlin", zone)
	}
	return nil
}

// refuseKeysThatPrintAlike refuses what [keysPrintAlike] finds.
func refuseKeysThatPrintAlike(_ *meter, a ...ref.Val) ref.Val {
	if len(a) == 2 && keysPrintAlike(a[1]) {
		return types.NewErr("format cannot write a map in which two keys have the same text, such as 1 and '1': equal events could have different results")
	}
	return nil
}

func checkDuration(text string) error {
	if types.IsError(types.String(text).ConvertToType(types.DurationType)) {
		return errDurationText
	}
	return nil
}

var errDurationText = errors.New("the duration is not valid: write duration('36h30m'), with the units h, m, s and ms, or duration(3, 'days')")

func checkZone(name string) error {
	_, err := zoneOf(name)
	return err
}

func checkLength(unit string) error {
	_, err := lengthOf(unit)
	return err
}

// literalValidator checks constant arguments. CEL's own validator of durations evaluates a call
// even if only its first argument is constant.
type literalValidator struct{}

// Name implements [cel.ASTValidator].
func (literalValidator) Name() string { return "penstock.literals" }

// Validate implements [cel.ASTValidator].
func (literalValidator) Validate(_ *cel.Env, _ cel.ValidatorConfig, checked *ast.AST, issues *cel.Issues) {
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.LiteralKind && e.AsLiteral().Type() == types.UintType {
			issues.ReportErrorAtID(e.ID(), "a whole number has no u: write %v", e.AsLiteral().Value())
		}
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		f := functionTable[call.FunctionName()]
		for i, argument := range call.Args() {
			if argument.Kind() != ast.LiteralKind || f.texts[i] == nil {
				continue
			}
			if text, ok := argument.AsLiteral().(types.String); ok {
				if err := f.texts[i](string(text)); err != nil {
					issues.ReportErrorAtID(argument.ID(), "%s", err.Error())
				}
			}
		}
	}))
}
