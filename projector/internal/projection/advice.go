package projection

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
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
