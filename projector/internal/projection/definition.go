package projection

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// semantics is the version of the meaning of declarations. Raise it when a change makes the same
// declaration fold the same events to another result: every read model is then rebuilt.
const semantics = 1

// Definition is the canonical text of the projection: JSON with sorted keys, which contains
// everything that determines the result of folding events, and nothing else. The text of a
// declared projection is enough to compile it ([Compile]). The order of keys, comments and
// spaces do not change it. Of the section events, it has the types of the fields that the
// expressions read. The text of a projection in Go contains the Version of its declaration.
func (p *Projection) Definition() string { return p.definition }

// Hash identifies the definition: the first 16 hex digits of its SHA-256.
func (p *Projection) Hash() string {
	sum := sha256.Sum256([]byte(p.definition))
	return hex.EncodeToString(sum[:8])
}

// InCode reports whether the projection is a Go function.
func (p *Projection) InCode() bool { return p.sources[0].apply != nil }

// Compile compiles the text of [Projection.Definition] to a projection with the same
// definition. It fails for a projection in Go.
func Compile(definition string) (*Projection, error) {
	var d storedDefinition
	if err := json.Unmarshal([]byte(definition), &d); err != nil {
		return nil, fmt.Errorf("read the stored definition: %w", err)
	}
	if d.Semantics != semantics {
		return nil, fmt.Errorf("projection %s is stored with semantics %d, and this version of Penstock has %d: run the version that stored it, or change nothing until all pods have the same version", d.Name, d.Semantics, semantics)
	}
	if d.Go {
		return nil, fmt.Errorf("compile projection %s: the projection is in Go: only a program with its code can run it", d.Name)
	}
	p, err := d.compile()
	if err != nil {
		return nil, fmt.Errorf("compile the stored definition of projection %s: %w", d.Name, err)
	}
	// A later version of Penstock may write the same definition differently.
	p.definition = definition
	return p, nil
}

// Scope is what a definition says about the aggregates that it folds.
type Scope struct {
	// AggregateTypes are their types; nil means all.
	AggregateTypes []string
	// View is set if the definition is that of a view.
	View bool
}

// Concerns reports whether aggregates of a type are folded.
func (s Scope) Concerns(aggregateType string) bool {
	return s.AggregateTypes == nil || slices.Contains(s.AggregateTypes, aggregateType)
}

// ScopeOf reads the scope of the text of [Projection.Definition], without compiling it.
func ScopeOf(definition string) (Scope, error) {
	var d struct {
		AggregateType string                           `json:"aggregateType"`
		From          []struct{ AggregateType string } `json:"from"`
	}
	if err := json.Unmarshal([]byte(definition), &d); err != nil {
		return Scope{}, fmt.Errorf("read the stored definition: %w", err)
	}
	s := Scope{View: d.From != nil}
	if d.AggregateType != "" {
		s.AggregateTypes = []string{d.AggregateType}
	}
	for _, from := range d.From {
		s.AggregateTypes = append(s.AggregateTypes, from.AggregateType)
	}
	return s, nil
}

// storedDefinition is a definition as it is stored.
type storedDefinition struct {
	Semantics     int             `json:"semantics"`
	Go            bool            `json:"go"`
	Name          string          `json:"name"`
	Collection    string          `json:"collection"`
	AggregateType *string         `json:"aggregateType"`
	On            json.RawMessage `json:"on"`
	Compute       json.RawMessage `json:"compute"`
	// From is set for a view, instead of AggregateType, On and Compute.
	From    json.RawMessage `json:"from"`
	Upcasts json.RawMessage `json:"upcasts"`
	// Events are the declared types of the fields that the expressions read.
	Events json.RawMessage `json:"events"`
	// Snapshots are the event types with which a history may begin.
	Snapshots json.RawMessage `json:"snapshots"`
}

// compile compiles the definition as a file of declarations with one projection.
func (d storedDefinition) compile() (*Projection, error) {
	declared := map[string]any{"name": d.Name, "collection": d.Collection}
	section := "projections"
	if d.From != nil {
		section, declared["from"] = "views", d.From
	}
	if d.On != nil {
		declared["on"] = d.On
	}
	if d.AggregateType != nil {
		declared["aggregateType"] = *d.AggregateType
	}
	if d.Compute != nil {
		declared["compute"] = d.Compute
	}
	file := map[string]any{section: []any{declared}}
	if d.Upcasts != nil {
		file["upcasts"] = d.Upcasts
	}
	if d.Events != nil {
		file["events"] = d.Events
	}
	if d.Snapshots != nil {
		file["snapshots"] = d.Snapshots
	}
	node, err := nodeOf(file)
	if err != nil {
		return nil, err
	}
	l := newLoader()
	l.stored = true
	place{loader: l, file: "the definition"}.root(node)
	found, err := l.result(d.Name)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// nodeOf returns a value as a node of YAML.
func nodeOf(v any) (*yaml.Node, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return nil, err
	}
	return yamlNode(plain), nil
}

func yamlNode(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range sortedKeys(v) {
			n.Content = append(n.Content, yamlNode(key), yamlNode(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, element := range v {
			n.Content = append(n.Content, yamlNode(element))
		}
		return n
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(v)}
}

// defineGo is the definition of a projection or a view in Go: what both have, and more.
func (p *Projection) defineGo(more map[string]any) string {
	definition := p.defineBoth()
	definition["go"] = true
	maps.Copy(definition, more)
	return canonicalJSON(definition)
}

// defineBoth begins the definition of a projection, declared or in Go.
func (p *Projection) defineBoth() map[string]any {
	definition := map[string]any{"semantics": semantics, "name": p.name, "collection": p.collection}
	if len(p.snapshots) > 0 {
		definition["snapshots"] = p.snapshots
	}
	return definition
}

// define is the definition of a declared projection that compiled.
func define(p *Projection) (string, error) {
	definition := p.defineBoth()
	env, err := dynamic()
	if err != nil {
		return "", err
	}
	d := describer{env}
	if p.view != nil {
		if err := d.describeView(p, definition); err != nil {
			return "", err
		}
	} else {
		s := &p.sources[0]
		maps.Copy(definition, d.describeRules(s))
		if s.aggregateType != "" {
			definition["aggregateType"] = s.aggregateType
		}
	}
	if len(p.upcasts) > 0 {
		definition["upcasts"] = d.describeUpcasts(p.upcasts)
	}
	if len(p.types) > 0 {
		events := map[string]any{}
		for eventType, s := range p.types {
			events[eventType] = s.describe()
		}
		definition["events"] = events
	}
	return canonicalJSON(definition), nil
}

// describer writes rules in canonical form. Its environment compiles their expressions.
type describer struct{ env *environment }

// describeRules returns the rules and the computed fields of a source in canonical form.
func (d describer) describeRules(s *source) map[string]any {
	on := map[string]any{}
	for eventType, rules := range s.on {
		described := make([]any, len(rules))
		for i, h := range rules {
			described[i] = d.describe(h)
		}
		on[eventType] = described
		if len(rules) == 1 {
			on[eventType] = described[0]
		}
	}
	described := map[string]any{"on": on}
	if len(s.compute) > 0 {
		described["compute"] = d.describeComputed(s.compute)
	}
	return described
}

// path returns the path of an operation in canonical form.
func (d describer) path(p fieldPath) string { return p.text(d.source) }

// describe returns a rule in canonical form.
func (d describer) describe(h *handler) map[string]any {
	described := map[string]any{}
	if h.when != nil {
		described[wordWhen] = d.source(h.when)
	}
	if h.delete {
		described[wordDelete] = true
	}
	for i := range h.operations {
		o := &h.operations[i]
		path := d.path(o.path)
		if o.op == opUnset {
			paths, _ := described[string(opUnset)].([]string)
			paths = append(paths, path)
			slices.Sort(paths)
			described[string(opUnset)] = paths
			continue
		}
		values, ok := described[string(o.op)].(map[string]any)
		if !ok {
			values = map[string]any{}
			described[string(o.op)] = values
		}
		values[path] = d.source(o.value)
		if o.form != nil {
			values[path] = o.form.describe(d.source(o.value))
		}
	}
	return described
}

// describeComputed returns computed fields in canonical form.
func (d describer) describeComputed(c computedFields) map[string]any {
	values := map[string]any{}
	for i := range c {
		values[d.path(c[i].path)] = d.source(c[i].value)
	}
	return values
}

// canonicalJSON writes a value with sorted keys and without spaces.
func canonicalJSON(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		// Maps, slices, texts, numbers and truth values have JSON.
		panic(fmt.Sprintf("encode a definition: %v", err))
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
