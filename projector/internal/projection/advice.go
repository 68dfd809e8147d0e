package projection

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

// acceptedComment begins the comment, on the line of a construct, with which an author
// accepts the advice about it. A reason must follow.
const acceptedComment = "# accepted: "

// advise reports a construct that works but is most likely a mistake.
func (p place) advise(node *yaml.Node, format string, args ...any) {
	if p.advising && !strings.HasPrefix(node.LineComment, acceptedComment) {
		p.advice = append(p.advice, p.at(node, format, args...))
	}
}

// adviseOn checks an expression that compiled.
func (p place) adviseOn(node *yaml.Node, x *expression) {
	if !p.advising || x == nil {
		return
	}
	for _, field := range p.notRequired(x.checked, node.Value) {
		p.advise(node, "%s.%s is not among the required fields of %s in the section events: an event without it parks its aggregate. Test it by has(), or require it", varPayload, field, p.eventType)
	}
	for _, literal := range p.inexact(x.checked) {
		p.advise(node, "%s is a double, which is not exactly %[1]s, so it does not equal a Decimal128 of %[1]s: write decimal('%[1]s'), or declare the field as a double in the section events", literal)
	}
	if loopsInLoop(x.checked) {
		p.advise(node, "there is a loop, or a search by in, within a loop: with 1,000 elements each it takes a million steps, and %d are allowed. Loop over less, or keep a total in the document. An event that exceeds the limit parks its aggregate", costLimit)
	}
}

// loopsInLoop reports whether an expression has a loop, or a search by in, within a loop.
func loopsInLoop(checked *ast.AST) (found bool) {
	loops := func(e ast.Expr) bool {
		// cel.bind is a loop over an empty list.
		return e.Kind() == ast.ComprehensionKind && e.AsComprehension().IterRange().Kind() != ast.ListKind
	}
	within := ast.NewExprVisitor(func(e ast.Expr) {
		search := e.Kind() == ast.CallKind && e.AsCall().FunctionName() == celop.In && e.AsCall().Args()[1].Kind() != ast.ListKind
		found = found || search || loops(e)
	})
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if loops(e) {
			ast.PreOrderVisit(e.AsComprehension().LoopCondition(), within)
			ast.PreOrderVisit(e.AsComprehension().LoopStep(), within)
		}
	}))
	return found
}

// reading is an expression that reads fields of the state or of the part.
type reading struct {
	place place
	node  *yaml.Node
	x     *expression
}

// read keeps an expression for [loader.adviseOnReading]. x is nil if it did not compile.
func (p place) read(node *yaml.Node, x *expression) {
	if p.advising && x != nil {
		p.reading = append(p.reading, reading{p, node, x})
	}
}

// adviseOnReading reports fields of the state, or of the part of a view, that an expression reads
// and that are not among those that the rules set.
func (l *loader) adviseOnReading(fields []string) {
	for _, r := range l.reading {
		var named []string
		for _, path := range inputs(r.x.checked.Expr()) {
			if of := path[0] == varState || path[0] == varPart; of && len(path) > 1 && !slices.Contains(slices.Concat(fields, named), path[1]) {
				named = append(named, path[1])
				r.place.advise(r.node, "no rule sets %s.%s%s, so it is always null", path[0], path[1], similar.Meant(path[1], fields))
			}
		}
	}
}

// notRequired returns the fields of the payload that an expression reads, that the event
// type declares and does not require, and whose presence neither the expression nor the
// handler's condition tests.
func (p place) notRequired(checked *ast.AST, text string) (fields []string) {
	s := p.schemas[p.eventType]
	if s == nil || s.required == nil {
		return nil
	}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() {
			return
		}
		of, field := e.AsSelect().Operand(), e.AsSelect().FieldName()
		if of.Kind() != ast.IdentKind || of.AsIdent() != varPayload || s.fields[field] == nil || slices.Contains(s.required, field) || slices.Contains(fields, field) {
			return
		}
		for _, tests := range []string{"has(" + varPayload + "." + field + ")", "'" + field + "' in " + varPayload, `"` + field + `" in ` + varPayload} {
			if strings.Contains(text, tests) || strings.Contains(p.condition, tests) {
				return
			}
		}
		fields = append(fields, field)
	}))
	return fields
}

// inexact returns the literals with a fraction that no double has, and that are compared with ==
// or != to a field that is not declared as a double.
func (p place) inexact(checked *ast.AST) (literals []string) {
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != celop.Equals && e.AsCall().FunctionName() != celop.NotEquals {
			return
		}
		for i, side := range e.AsCall().Args() {
			path, isPath := pathOf(e.AsCall().Args()[1-i])
			if side.Kind() != ast.LiteralKind || !isPath || p.declaresDouble(path) {
				continue
			}
			f, ok := side.AsLiteral().(types.Double)
			text := strconv.FormatFloat(float64(f), 'f', -1, 64)
			if exact, _ := new(big.Rat).SetString(text); ok && exact != nil && exact.Cmp(new(big.Rat).SetFloat64(float64(f))) != 0 {
				literals = append(literals, text)
			}
		}
	}))
	return literals
}

// declaresDouble reports whether the section events declares a field of the payload as a double.
func (p place) declaresDouble(path []string) bool {
	s := p.schemas[p.eventType]
	if path[0] != varPayload {
		return false
	}
	for _, name := range path[1:] {
		if s == nil {
			return false
		}
		s = s.fields[name]
	}
	return s != nil && s.celType.IsExactType(types.DoubleType)
}

// adviseOnType checks the event type of a handler. A | in it probably separates two of them.
// If event types are declared and a declared one is similar, that is probably meant.
func (p place) adviseOnType(node *yaml.Node, eventType string) {
	switch {
	case strings.Contains(node.Value, "|") && (strings.Contains(eventType, "|") || strings.TrimSpace(eventType) != eventType):
		p.advise(node, "%q is the name of one event type: between several, write one space, | and one space: A | B", eventType)
	case strings.TrimSpace(eventType) != eventType:
		p.advise(node, "%q is an event type with a space at its start or end: remove the space, unless the stored events have it", eventType)
	}
	if !p.advising || len(p.declared) == 0 || p.declared[eventType] != "" {
		return
	}
	// OrderPaidEvent and OrderPlacedEvent are three edits apart, and both are right.
	if meant := similar.Within(min(2, len(eventType)/8), eventType, sortedKeys(p.declared)); meant != "" {
		p.advise(node, "the section events does not have %s: did you mean %s?", eventType, meant)
	}
}
