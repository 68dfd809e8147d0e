package projection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// loader compiles declarations to projections and collects their problems.
type loader struct {
	found    []*Projection
	problems []Problem
	// sections are the sections of all files, by their keys.
	sections map[string][]section
	// upcast are the upcasts, with their nodes by event type.
	upcast struct {
		all   upcasts
		nodes map[string]section
	}
	// snapshots are the event types with which a history may begin, in order.
	snapshots []string
	// handled are the event types for which a projection has rules.
	handled map[string]bool
	// names, collections and declared hold the place of the first use of each projection
	// name, collection and event type.
	names, collections, declared map[string]string
	// schemas are those of the declared event types, environments the compiled ones.
	schemas      map[string]*schema
	environments map[string]*environment
	// lines are the lines of each file, to show them with a problem.
	lines map[string][]string
	// stored says that a stored definition is compiled, no file.
	stored bool
	// advising says whether advice is collected.
	advising bool
	// reading are the expressions of the rules and computed fields of the present source, for
	// advice about fields that they read.
	reading []reading
	// reads are the paths that the expressions of the present projection read, by event type.
	// Event types without a schema are left out.
	reads map[string][][]string
	// empty says that a folder has no file of projections.
	empty  bool
	advice []Problem
}

// section is the value of a key at the root of a YAML document.
type section struct {
	place place
	node  *yaml.Node
}

func newLoader() *loader {
	l := &loader{
		handled: map[string]bool{},
		names:   map[string]string{}, collections: map[string]string{}, declared: map[string]string{},
		schemas: map[string]*schema{}, environments: map[string]*environment{},
		lines: map[string][]string{}, sections: map[string][]section{},
	}
	l.upcast.all, l.upcast.nodes = upcasts{}, map[string]section{}
	return l
}

// environment returns the environment of an event type.
func (l *loader) environment(eventType string) (*environment, error) {
	if e, ok := l.environments[eventType]; ok {
		return e, nil
	}
	s := l.schemas[eventType]
	if l.stored {
		s = nil // it has the fields that the expressions read, and no others
	}
	e, err := newEnvironment(s)
	if err == nil {
		l.environments[eventType] = e
	}
	return e, err
}

func (l *loader) report(p Problem) { l.problems = append(l.problems, p) }

// result compiles the contents of all parsed files. The event types come first, because the
// sections events and upcasts of a file apply to all files.
func (l *loader) result(paths ...string) ([]*Projection, error) {
	for _, s := range l.sections["events"] {
		s.place.events(s.node)
	}
	for _, s := range l.sections["upcasts"] {
		s.place.upcasts(s.node)
	}
	if !l.checkCircles() {
		l.upcast.all = upcasts{} // the chains must end
	}
	for _, s := range l.sections["snapshots"] {
		s.place.list(s.node, "snapshots", s.place.in("snapshots").snapshot)
	}
	slices.Sort(l.snapshots)
	for _, s := range l.sections["projections"] {
		s.place.list(s.node, "projections", s.place.declaration)
	}
	for _, s := range l.sections["views"] {
		s.place.list(s.node, "views", s.place.viewDeclaration)
	}
	if !l.stored {
		l.checkGaps()
	}
	if len(l.found) == 0 && len(l.problems) == 0 {
		l.report(Problem{File: strings.Join(paths, ", "), Message: "no projection is declared: write one below the key projections, or let projector init write a first file"})
	}
	if len(l.problems) > 0 {
		SortProblems(l.problems)
		return nil, &loadError{problems: l.problems, noFile: l.empty && len(l.problems) == 1}
	}
	return l.found, nil
}

// place is the loader's place in a file.
type place struct {
	*loader
	file                       string
	projection, eventType, key string
	// condition is the text of the handler's word when.
	condition string
}

// problem reports a problem at node.
func (p place) problem(node *yaml.Node, format string, args ...any) {
	p.report(p.at(node, format, args...))
}

// at makes a problem at node, with its line.
func (p place) at(node *yaml.Node, format string, args ...any) Problem {
	problem := Problem{File: p.file, Line: node.Line, Column: node.Column, Where: p.where(), Message: fmt.Sprintf(format, args...)}
	problem.Show(p.lines[p.file])
	return problem
}

// where names the place: the projection, the event type and the key, as far as known.
func (p place) where() (parts []string) {
	if p.projection != "" {
		parts = append(parts, "projection "+p.projection)
	}
	return append(parts, slices.DeleteFunc([]string{p.eventType, p.key}, func(part string) bool { return part == "" })...)
}

// parse reads one file, which may hold several YAML documents.
func (l *loader) parse(file string, data []byte) {
	at := place{loader: l, file: file}
	l.lines[file] = strings.Split(string(data), "\n")
	for document, m := range yamlplace.Documents(data) {
		if m != nil {
			problem := Problem{File: file, Line: m.Line, Column: m.Column, Message: m.Message}
			problem.Show(l.lines[file])
			l.report(problem)
			return
		}
		if len(document.Content) > 0 {
			at.root(document.Content[0])
		}
	}
}

// entries returns the entries of a mapping, and reports its problems.
func (p place) entries(node *yaml.Node) ([]yamlplace.Entry, bool) {
	return yamlplace.Entries(node, "; for several event types, a key is A | B", p.problem)
}

func empty(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

// rootKeys are the sections of a file.
var rootKeys = []string{"projections", "views", "events", "upcasts", "snapshots"}

// root collects the sections of a YAML document.
func (p place) root(node *yaml.Node) {
	if empty(node) {
		return
	}
	entries, ok := p.entries(node)
	if !ok {
		p.problem(node, "a file of projections starts with projections:")
		return
	}
	for _, e := range entries {
		if p.sections[e.Key] = append(p.sections[e.Key], section{p, e.Value}); !slices.Contains(rootKeys, e.Key) {
			p.problem(e.Node, "unknown key %s%s; a file of projections holds %s", e.Key, similar.Meant(e.Key, rootKeys), strings.Join(rootKeys, ", "))
		}
	}
}

// list reads a section that is a list.
func (p place) list(node *yaml.Node, section string, read func(*yaml.Node)) {
	if node.Kind != yaml.SequenceNode {
		p.problem(node, "%s is a list: each starts with a dash", section)
		return
	}
	for _, item := range node.Content {
		read(yamlplace.Resolve(item))
	}
}

var declarationKeys = []string{"name", "collection", "aggregateType", "on", "compute"}

// declaration reads one projection.
func (p place) declaration(node *yaml.Node) {
	keys, ok := p.keys(node, "a projection", declarationKeys)
	if !ok {
		return
	}
	before := len(p.problems)
	p.reading, p.reads = nil, map[string][][]string{}
	projection := &Projection{}
	p = p.identity(node, keys, projection)
	s := source{on: handlers{}}
	if e, ok := keys["aggregateType"]; ok {
		s.aggregateType = p.in("aggregateType").text(e.Value, func(s string) error {
			if s == "" {
				return errors.New("aggregateType is empty; leave it out to mean all")
			}
			return nil
		})
	}
	if e, ok := keys["on"]; ok {
		p.handlers(e.Value, &s)
	} else {
		p.problem(node, "the projection has no on: it would do nothing")
	}
	if e, ok := keys["compute"]; ok {
		p.compute(e, &s)
	}
	projection.sources, projection.deletes = []source{s}, s.deletes()
	projection.upcasts = p.upcast.all.of(s.on)
	p.adviseOnReading(s.fields())
	p.finish(node, projection, before)
}

// identity reads the name and the collection of a projection or a view.
func (p place) identity(node *yaml.Node, keys map[string]yamlplace.Entry, projection *Projection) place {
	if e, ok := keys["name"]; ok {
		projection.name = p.in("name").text(e.Value, checkName)
		p.projection = projection.name
	} else {
		p.problem(node, "the %s has no name", projection.kind())
	}
	if e, ok := keys["collection"]; ok {
		projection.collection = p.in("collection").text(e.Value, checkCollection)
	} else {
		p.problem(node, "the %s has no collection", projection.kind())
	}
	return p
}

// finish adds a projection or a view, unless there are more problems than before.
func (p place) finish(node *yaml.Node, projection *Projection, before int) {
	p.unique(node, projection)
	if len(p.problems) > before {
		return
	}
	projection.types, projection.schemas, projection.snapshots = p.readTypes(), p.schemas, p.snapshots
	projection.definition = define(projection)
	p.found = append(p.found, projection)
}

// keys returns the entries of a mapping by name, and reports unknown ones.
func (p place) keys(node *yaml.Node, what string, known []string) (map[string]yamlplace.Entry, bool) {
	entries, ok := p.entries(node)
	if !ok {
		p.problem(node, "%s is a mapping with %s", what, strings.Join(known, ", "))
		return nil, false
	}
	keys := map[string]yamlplace.Entry{}
	for _, e := range entries {
		keys[e.Key] = e
	}
	if e, ok := keys["name"]; ok && p.projection == "" {
		p.projection = e.Value.Value
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Key) {
			p.problem(e.Node, "unknown key %s%s; %s has %s", e.Key, similar.Meant(e.Key, known), what, strings.Join(known, ", "))
		}
	}
	return keys, true
}

// in is the place of a key.
func (p place) in(key string) place {
	p.key = key
	return p
}

// text reads a string.
func (p place) text(node *yaml.Node, check func(string) error) string {
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" && node.Tag != "!!null" {
		p.problem(node, "this takes a text")
		return ""
	}
	value := node.Value
	if empty(node) {
		value = ""
	}
	if err := check(value); err != nil {
		p.problem(node, "%v", err)
	}
	return value
}

// unique reports a projection whose name or collection is used twice.
func (p place) unique(node *yaml.Node, projection *Projection) {
	here := fmt.Sprintf("%s:%d", p.file, node.Line)
	if first, taken := p.names[projection.name]; taken && projection.name != "" {
		p.problem(node, "the name is taken by the projection at %s", first)
	} else {
		p.names[projection.name] = here
	}
	if first, taken := p.collections[projection.collection]; taken && projection.collection != "" {
		p.problem(node, "the collection %s is taken by the projection at %s: two projections in one would overwrite each other", projection.collection, first)
	} else {
		p.collections[projection.collection] = here
	}
}
