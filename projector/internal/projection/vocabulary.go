package projection

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// The words of a handler besides the operators.
const (
	wordWhen   = "when"
	wordDelete = "delete"
)

// vocabulary lists all words, in the order of the documentation.
var vocabulary = []string{wordWhen, "set", "unset", "inc", "push", "pull", "addToSet", "min", "max", wordDelete}

// handlers reads the rules of a source.
func (p place) handlers(node *yaml.Node, s *source) {
	entries, ok := p.entries(node)
	if !ok || len(entries) == 0 {
		p.problem(node, "on has no event type: write each event type as a key, and its words below it")
		return
	}
	lines := map[string]int{}
	for _, e := range entries {
		for _, eventType := range p.eventTypes(e.Key) {
			at := p
			at.eventType = eventType
			if eventType == "" {
				at.problem(e.Node, "an event type is not empty")
				continue
			}
			if strings.Contains(eventType, "*") {
				at.problem(e.Node, "an event type is one name: * stands for no others, so name each event type: A | B")
				continue
			}
			if line, taken := lines[eventType]; taken {
				at.problem(e.Node, "%s has rules in line %d: write all of them there, as a list", eventType, line)
				continue
			}
			lines[eventType], p.handled[eventType] = e.Node.Line, true
			if p.upcast.all.leaves(eventType) {
				at.problem(e.Node, "no event comes here: upcasts give all events of the type another one. Write the rule for the new type")
			}
			at.adviseOnType(e.Node, eventType)
			s.on[eventType] = at.rules(e)
		}
	}
}

// eventTypes returns the event types that a key names. A comma does not separate them, because
// the names of .NET types contain it.
func (p place) eventTypes(key string) []string {
	if p.stored {
		return []string{key}
	}
	return strings.Split(key, " | ")
}

// rules reads the rules of one event type: one, or a list of them.
func (p place) rules(e yamlplace.Entry) []*handler {
	if e.Value.Kind != yaml.SequenceNode || len(e.Value.Content) == 0 {
		return []*handler{p.handler(e)}
	}
	var rules []*handler
	for i, node := range yamlplace.List(e.Value) {
		rules = append(rules, p.handler(yamlplace.Entry{Key: e.Key, Node: node, Value: node}))
		if i+1 < len(e.Value.Content) && !hasKey(node, wordWhen) {
			p.problem(node, "no event comes to the rules after this one, because it has no when: write it last")
		}
	}
	return rules
}

// hasKey reports whether a mapping has a key.
func hasKey(node *yaml.Node, key string) bool {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if yamlplace.Resolve(node.Content[i]).Value == key {
			return true
		}
	}
	return false
}

// handler reads one rule of an event type.
func (p place) handler(e yamlplace.Entry) *handler {
	h := &handler{}
	entries, ok := p.entries(e.Value)
	if !ok || len(entries) == 0 {
		p.problem(e.Node, "the event type does nothing: leave it out, or give it one of %s", strings.Join(vocabulary, ", "))
		return h
	}
	acts := false
	for _, e := range entries {
		if e.Key == wordWhen {
			p.condition = e.Value.Value
		}
	}
	for _, e := range entries {
		at := p.in(e.Key)
		acts = acts || e.Key != wordWhen
		switch {
		case e.Key == wordWhen:
			h.when = at.expression(e.Value, boolValue)
		case e.Key == wordDelete:
			h.delete = true
			if e.Value.Tag != "!!bool" || e.Value.Value != "true" {
				at.problem(e.Value, "delete is true or absent; a condition stands in when")
			}
			if i := slices.IndexFunc(entries, func(e yamlplace.Entry) bool { return e.Key != wordWhen && e.Key != wordDelete }); i >= 0 {
				at.problem(e.Node, "delete stands alone or with when, not with %s", entries[i].Key)
			}
		case e.Key == string(opUnset):
			h.operations = append(h.operations, at.unset(e.Value)...)
		case slices.Contains(vocabulary, e.Key):
			h.operations = append(h.operations, at.operations(operator(e.Key), e.Value)...)
		default:
			p.problem(e.Node, "unknown word %s%s; the vocabulary is %s", e.Key, similar.Meant(e.Key, vocabulary), strings.Join(vocabulary, ", "))
		}
	}
	if !acts {
		p.problem(e.Node, "when alone does nothing; the vocabulary is %s", strings.Join(vocabulary, ", "))
	}
	p.disjoint(e.Node, h.operations)
	h.arrange()
	return h
}

// operations reads the paths and expressions of an operator.
func (p place) operations(op operator, node *yaml.Node) []operation {
	entries, ok := p.entries(node)
	if !ok || len(entries) == 0 {
		p.problem(node, "%s takes a mapping of fields to expressions", op)
		return nil
	}
	want := anyValue
	if op == opInc {
		want = numberValue
	}
	var found []operation
	for _, e := range entries {
		at := p.in(fmt.Sprintf("%s %s", op, e.Key))
		path, ok := at.path(op, e.Node)
		source, form := e.Value, (*listForm)(nil)
		if op == opPush && source.Kind == yaml.MappingNode {
			if source, form = at.pushForm(source); source == nil {
				continue
			}
		}
		value := at.expression(source, want)
		if ok && value != nil {
			found = append(found, operation{op: op, path: path, value: value, form: form})
		}
	}
	return found
}

// unset reads a path or a list of them.
func (p place) unset(node *yaml.Node) []operation {
	nodes := yamlplace.List(node)
	if len(nodes) == 0 {
		p.problem(node, "unset takes a field or a list of fields")
	}
	var found []operation
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode || empty(n) {
			p.problem(n, "unset takes a field or a list of fields")
			continue
		}
		if path, ok := p.path(opUnset, n); ok {
			found = append(found, operation{op: opUnset, path: path})
		}
	}
	return found
}

// path reads the path of an operation, and compiles the expressions in it.
func (p place) path(op operator, node *yaml.Node) (path fieldPath, ok bool) {
	parts, err := splitPath(node.Value)
	if err == nil {
		err = checkPath(node.Value, parts)
	}
	if last := len(parts) - 1; err == nil && op != opSet && op != opUnset && parts[last].at > 0 && parts[last].name != "" {
		err = fmt.Errorf("%s changes a whole element: name its field, such as %s.quantity, or use set or unset", op, node.Value)
	}
	if err != nil {
		p.problem(node, "%v", err)
		return nil, false
	}
	ok = true
	for _, part := range parts {
		step := pathStep{name: part.name}
		if part.at > 0 {
			step.element = part.name != ""
			step.key = p.bracket(node, part)
			ok = ok && step.key != nil
		}
		path = append(path, step)
	}
	return path, ok
}

// bracket compiles an expression in the brackets of a path.
func (p place) bracket(node *yaml.Node, part pathPart) *expression {
	within := *node
	within.Value, within.Column = part.expression, node.Column+part.at
	if part.name != "" {
		return p.expression(&within, idValue)
	}
	x := p.expression(&within, nameValue)
	if x == nil || x.checked.Expr().Kind() != ast.LiteralKind {
		return x
	}
	if _, number := x.checked.Expr().AsLiteral().(types.Int); number {
		p.problem(node, "[%s] is the name of a field, not the position of an element: select an element by a field, such as [id=payload.id]; if the field is named so, write ['%[1]s']", part.expression)
		return nil
	}
	return x
}

// disjoint reports operations that would overwrite each other.
func (p place) disjoint(node *yaml.Node, operations []operation) {
	for i := range operations {
		for j := range i {
			a, b := &operations[j], &operations[i]
			switch {
			case !a.path.overlaps(b.path):
			case a.commutes(b):
			case a.path.computed() || b.path.computed():
				p.problem(node, "%s and %s can change the same value: the result would depend on their order, which is not defined. Name different fields", a, b)
			default:
				p.problem(node, "%s and %s change the same value: the result would depend on their order, which is not defined", a, b)
			}
		}
	}
}

// expression compiles a right-hand side. A number or boolean can be written without
// quotes, because it means the same in CEL.
func (p place) expression(node *yaml.Node, want resultKind) *expression {
	env, err := p.environment(p.eventType)
	if err != nil {
		p.problem(node, "make the environment of the expression: %v", err)
		return nil
	}
	x := p.compiled(node, env, want)
	p.read(node, x)
	if x != nil && p.schemas[p.eventType] != nil {
		p.reads[p.eventType] = append(p.reads[p.eventType], inputs(x.checked.Expr())...)
	}
	return x
}

// compiled compiles an expression in an environment.
func (p place) compiled(node *yaml.Node, env *environment, want resultKind) *expression {
	switch {
	case node.Kind != yaml.ScalarNode:
		p.problem(node, "this takes a CEL expression in quotes, such as \"{'sku': payload.sku}\" for a document")
		return nil
	case empty(node) || strings.TrimSpace(node.Value) == "":
		p.problem(node, "the expression is missing (for null, write \"null\" in quotes)")
		return nil
	case node.Tag == "!!timestamp":
		p.problem(node, "a time is written \"timestamp('%s')\"", node.Value)
		return nil
	}
	x, issues := compile(env, node.Value, want)
	lines := strings.Split(node.Value, "\n")
	for _, i := range issues {
		problem := Problem{File: p.file, Line: node.Line, Column: node.Column, Where: p.where(), Message: i.message}
		if at := i.line - 1; at >= 0 && at < len(lines) {
			problem.source, problem.caret = lines[at], i.column
			if node.Style&yaml.LiteralStyle != 0 {
				problem.Line += i.line
			}
		}
		if aName.MatchString(node.Value) && strings.HasPrefix(i.message, "undeclared") && !strings.Contains(i.message, "did you mean") {
			problem.Message += fmt.Sprintf(" (a text stands in quotes of its own: \"'%s'\")", node.Value)
		}
		p.report(problem)
	}
	p.adviseOn(node, x)
	return x
}

// aName matches an expression that is a single name, which is probably a text without quotes.
var aName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
