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
	"strings"

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
	decoder := json.NewDecoder(strings.NewReader(definition))
	decoder.UseNumber()
	var stored map[string]any
	if err := decoder.Decode(&stored); err != nil {
		return nil, fmt.Errorf("read the stored definition: %w", err)
	}
	name := stored["name"]
	if version := fmt.Sprint(stored["semantics"]); version != strconv.Itoa(semantics) {
		return nil, fmt.Errorf("projection %v is stored with semantics %s, and this version of Penstock has %d: run the version that stored it, or change nothing until all pods have the same version", name, version, semantics)
	}
	if stored["go"] == true {
		return nil, fmt.Errorf("compile projection %v: the projection is in Go: only a program with its code can run it", name)
	}
	l := newLoader()
	l.stored = true
	place{loader: l, file: "the definition"}.root(yamlNode(fileOf(stored)))
	found, err := l.result("the definition")
	if err != nil {
		return nil, fmt.Errorf("compile the stored definition of projection %v: %w", name, err)
	}
	// A later version of Penstock may write the same definition differently.
	found[0].definition = definition
	return found[0], nil
}

// fileOf returns a stored definition as a file of declarations with one projection.
func fileOf(stored map[string]any) map[string]any {
	file, declared := map[string]any{}, map[string]any{}
	for key, value := range stored {
		switch key {
		case "semantics":
		case "upcasts", "events", "snapshots":
			file[key] = value
		default:
			declared[key] = value
		}
	}
	section := "projections"
	if stored["from"] != nil {
		section = "views"
	}
	file[section] = []any{declared}
	return file
}

// Scope is what a definition says about the events that it folds.
type Scope struct {
	Sources []Source
	// View is set if the definition is that of a view.
	View bool
}

// Concerns reports whether aggregates of a type are folded.
func (s Scope) Concerns(aggregateType string) bool {
	return slices.ContainsFunc(s.Sources, func(from Source) bool { return from.Concerns(aggregateType) })
}

// ScopeOf reads the scope of the text of [Projection.Definition], without compiling it.
func ScopeOf(definition string) (Scope, error) {
	type described struct {
		AggregateType string                     `json:"aggregateType"`
		On            map[string]json.RawMessage `json:"on"`
	}
	var d struct {
		described
		From    []described                `json:"from"`
		Upcasts map[string]json.RawMessage `json:"upcasts"`
		Go      bool                       `json:"go"`
	}
	if err := json.Unmarshal([]byte(definition), &d); err != nil {
		return Scope{}, fmt.Errorf("read the stored definition: %w", err)
	}
	s := Scope{View: d.From != nil}
	if !s.View {
		d.From = []described{d.described}
	}
	for _, from := range d.From {
		source := Source{AggregateType: from.AggregateType}
		if !d.Go {
			source.EventTypes = append(sortedKeys(from.On), sortedKeys(d.Upcasts)...)
		}
		s.Sources = append(s.Sources, source)
	}
	return s, nil
}

// yamlNode returns a value of JSON as a node of YAML.
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

// defineGo is the definition of a projection in Go.
func (p *Projection) defineGo(d Declaration) string {
	definition := p.defineBoth()
	definition["go"], definition["aggregateType"], definition["deletes"], definition["version"] = true, d.AggregateType, d.Deletes, d.Version
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
func define(p *Projection) string {
	definition := p.defineBoth()
	if p.view != nil {
		definition["from"] = describeSources(p.sources)
	} else {
		s := &p.sources[0]
		maps.Copy(definition, s.describe())
		if s.aggregateType != "" {
			definition["aggregateType"] = s.aggregateType
		}
	}
	if len(p.upcasts) > 0 {
		definition["upcasts"] = p.upcasts.describe()
	}
	if len(p.types) > 0 {
		events := map[string]any{}
		for eventType, s := range p.types {
			events[eventType] = s.describe()
		}
		definition["events"] = events
	}
	return canonicalJSON(definition)
}

// describe returns the rules and the computed fields of a source in canonical form.
func (from *source) describe() map[string]any {
	on := map[string]any{}
	for eventType, rules := range from.on {
		described := make([]any, len(rules))
		for i, h := range rules {
			described[i] = h.describe()
		}
		on[eventType] = described
		if len(rules) == 1 {
			on[eventType] = described[0]
		}
	}
	described := map[string]any{"on": on}
	if len(from.compute) > 0 {
		values := map[string]any{}
		for i := range from.compute {
			values[from.compute[i].path.canonical()] = from.compute[i].value.canonical
		}
		described["compute"] = values
	}
	return described
}

// describe returns a rule in canonical form.
func (h *handler) describe() map[string]any {
	described := map[string]any{}
	if h.when != nil {
		described[wordWhen] = h.when.canonical
	}
	if h.delete {
		described[wordDelete] = true
	}
	for i := range h.operations {
		o := &h.operations[i]
		path := o.path.canonical()
		if o.op == opUnset {
			paths, _ := described[string(opUnset)].([]string)
			described[string(opUnset)] = slices.Sorted(slices.Values(append(paths, path)))
			continue
		}
		values, ok := described[string(o.op)].(map[string]any)
		if !ok {
			values = map[string]any{}
			described[string(o.op)] = values
		}
		values[path] = o.value.canonical
		if o.form != nil {
			values[path] = o.form.describe(o.value.canonical)
		}
	}
	return described
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
