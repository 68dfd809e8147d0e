package projection

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	celoperators "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// Evaluation is the evaluation of one expression of a handler.
type Evaluation struct {
	// Word is the word of the vocabulary with its path, such as "when" or "set email".
	Word string `json:"word"`
	// Expression is the source of the expression.
	Expression string `json:"expression"`
	// Inputs are the fields of the event and the state that the expression names.
	Inputs []Input `json:"inputs,omitempty"`
	// Result is the resulting value as Extended JSON. It is empty if the evaluation
	// failed or returned an empty optional.
	Result string `json:"result,omitempty"`
	// Error is the error of the evaluation; empty if there was none.
	Error string `json:"error,omitempty"`
}

// Input is a field that an expression names, such as payload.newEmail.
type Input struct {
	Path string `json:"path"`
	// Value is Extended JSON; empty if the field is absent. A long value is cut.
	Value string `json:"value,omitempty"`
}

// Trace records how an event was folded. The engine folds without a trace; only
// explanations use one.
type Trace struct {
	// Evaluations are the expressions that ran, in their order. A projection in Go has none.
	Evaluations []Evaluation
	// LeftOut says why the event was not applied; empty if it was, or if it failed.
	LeftOut string
}

// Trace folds one event as Add does, and records how.
func (a *Accumulator) Trace(ev *event.Event) (Trace, *Error) {
	t := Trace{LeftOut: a.projection.ignores(ev)}
	a.trace = &t
	err := a.Add([]*event.Event{ev})
	a.trace = nil
	return t, err
}

// ignores says why the projection has nothing to do with an event; empty if it has.
func (p *Projection) ignores(ev *event.Event) string {
	has := "the aggregate type is " + ev.AggregateType
	switch {
	case p.Handles(ev):
		return ""
	case p.Concerns(ev):
		return "the projection has no handler for the event type"
	case ev.AggregateType == "":
		has = "the event has no aggregate type"
	}
	var takes []string
	for i := range p.sources {
		takes = append(takes, p.sources[i].aggregateType)
	}
	return has + ", and the projection takes " + strings.Join(slices.Sorted(slices.Values(takes)), ", ")
}

// noRule says why none of the rules for an event applied it. eventType is the event's type
// after the upcasts.
func noRule(rules []*handler, eventType string) string {
	if rules == nil {
		return fmt.Sprintf("upcasts make %s of the event, for which the projection has no handler", eventType)
	}
	return "the condition is false"
}

// note records an evaluation in the scope s. v is nil if there is no result.
func (t *Trace) note(word string, x *expression, s *scope, v ref.Val, err error) {
	// An explanation reads more than the evaluation. It must not change what the event
	// spends.
	m := s.event.meter
	defer func() { s.event.meter = m }()
	s.event.meter = meter{free: true}
	apart := s.apart()
	e := Evaluation{Word: word, Expression: x.source}
	for _, path := range inputs(x.checked.Expr()) {
		input := Input{Path: strings.Join(path, ".")}
		if value, ok := apart.at(path); ok {
			input.Value = showResult(value)
		}
		e.Inputs = append(e.Inputs, input)
	}
	switch {
	case err != nil:
		e.Error = err.Error()
	case v != nil:
		e.Result = showResult(v)
	}
	t.Evaluations = append(t.Evaluations, e)
}

// apart returns the scope without a meter, and without what the evaluations have looked up.
func (s *scope) apart() *scope {
	apart := &scope{event: NewEvent(s.event.Event), element: s.element}
	apart.event.meter.free = true
	if d, ok := s.state.f.(*document); ok {
		before := *d
		before.meter, before.large = nil, nil
		apart.state.f = &before
	}
	return apart
}

// at returns the value at a path; false if a field on the path is absent.
func (s *scope) at(path []string) (ref.Val, bool) {
	root, ok := s.ResolveName(path[0])
	v, isValue := root.(ref.Val)
	if !ok || !isValue {
		return nil, false
	}
	for _, name := range path[1:] {
		fields, ok := v.(traits.Mapper)
		if !ok {
			return nil, false
		}
		if v, ok = fields.Find(types.String(name)); !ok {
			return nil, false
		}
	}
	return v, true
}

// maxShown bounds the text of a value in an explanation, in bytes.
const maxShown = 1024

func showResult(v ref.Val) string {
	encoded, err := encodeValue(v, nil)
	if err != nil {
		return err.Error()
	}
	return Show(encoded)
}

// Show returns a value as relaxed Extended JSON, cut after 1 kB; empty for an absent one.
func Show(v bson.RawValue) string {
	if !fold.Present(v) {
		return ""
	}
	const prefix, suffix = `{"v":`, `}`
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return err.Error()
	}
	text = text[len(prefix) : len(text)-len(suffix)]
	if len(text) <= maxShown {
		return string(text)
	}
	end := maxShown
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "…"
}

// inputs returns the longest field paths in an expression that start with a variable,
// each once, in the order of the source.
func inputs(e ast.Expr) [][]string {
	w := inputWalk{seen: map[string]bool{}, bound: map[string]int{}}
	w.visit(e)
	return w.found
}

type inputWalk struct {
	found [][]string
	seen  map[string]bool
	// bound counts, for each name, the enclosing comprehensions that bind it.
	bound map[string]int
}

// variables are the variables of expressions.
var variables = map[string]bool{
	varEvent: true, varState: true, varPayload: true, varMetadata: true, varAggregateID: true,
	varAggregateType: true, varEventID: true, varEventType: true, varTimestamp: true,
}

func (w *inputWalk) visit(e ast.Expr) {
	if path, ok := pathOf(e); ok {
		// A dot before the name of a variable passes those of loops with the same name.
		name, absolute := strings.CutPrefix(path[0], ".")
		path[0] = name
		key := strings.Join(path, ".")
		if (variables[name] || name == varPart || name == varElement) && (absolute || w.bound[name] == 0) && !w.seen[key] {
			w.seen[key] = true
			w.found = append(w.found, path)
		}
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		w.visit(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			w.visit(call.Target())
		}
		w.all(call.Args())
	case ast.ListKind:
		w.all(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.visit(entry.AsMapEntry().Key())
			w.visit(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		w.all([]ast.Expr{c.IterRange(), c.AccuInit()})
		names := []string{c.IterVar(), c.IterVar2(), c.AccuVar()}
		for _, name := range names {
			w.bound[name]++
		}
		w.all([]ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()})
		for _, name := range names {
			w.bound[name]--
		}
	}
}

func (w *inputWalk) all(expressions []ast.Expr) {
	for _, e := range expressions {
		w.visit(e)
	}
}

// pathOf returns the path of an expression that only selects fields, such as
// payload.address.?city.
func pathOf(e ast.Expr) ([]string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}, true
	case ast.SelectKind:
		path, ok := pathOf(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case celoperators.OptSelect, celoperators.Index, celoperators.OptIndex:
			args := call.Args()
			if len(args) != 2 || args[1].Kind() != ast.LiteralKind {
				return nil, false
			}
			name, isText := args[1].AsLiteral().(types.String)
			path, ok := pathOf(args[0])
			return append(path, string(name)), ok && isText
		}
	}
	return nil, false
}
