package projection

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/yamlplace"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

var (
	viewKeys       = []string{"name", "collection", "from", "as", "totals"}
	viewSourceKeys = []string{"aggregateType", "key", "each", "as", "keep", "on", "compute", "totals"}
	totalKeys      = []string{"sum", "count", "min", "max", "set", "where"}
)

// keepFields is the value of keep with which a document has the fields of a part.
const keepFields = "fields"

// viewDeclaration reads one view.
func (p place) viewDeclaration(node *yaml.Node) {
	keys, ok := p.keys(node, "a view", viewKeys)
	if !ok {
		return
	}
	before := len(p.problems)
	projection := &Projection{view: &view{}}
	p = p.identity(node, keys, projection)
	shared := map[string]contributedTotal{}
	if e, ok := keys["totals"]; ok {
		shared = p.in("totals").totals(e.value)
	}
	as := ""
	if e, ok := keys["as"]; ok {
		as = p.in("as").text(e.value, documentField)
	}
	from, ok := keys["from"]
	if !ok || from.value.Kind != yaml.SequenceNode || len(from.value.Content) == 0 {
		p.problem(node, "the view has no from: a list of its sources, each with an aggregateType, a key and the rules of on")
		return
	}
	for _, item := range from.value.Content {
		p.viewSource(yamlplace.Resolve(item), projection, as, shared)
	}
	p.viewFields(node, projection)
	all := handlers{}
	for i := range projection.sources {
		for eventType := range projection.sources[i].on {
			all[eventType] = nil
		}
	}
	projection.upcasts = p.upcast.all.of(all)
	p.finish(node, projection, before)
}

// viewSource reads one source of a view.
func (p place) viewSource(node *yaml.Node, projection *Projection, as string, shared map[string]contributedTotal) {
	keys, ok := p.keys(node, "a source of a view", viewSourceKeys)
	if !ok {
		return
	}
	c := &contribution{as: as}
	s := source{on: handlers{}, contribution: c}
	if e, ok := keys["aggregateType"]; ok {
		s.aggregateType = p.in("aggregateType").text(e.value, notEmpty)
	} else {
		p.problem(node, "the source has no aggregateType: a view takes aggregates of types that it names")
	}
	if projection.source(s.aggregateType) != nil {
		p.problem(node, "%s is there twice: write its rules into one source", s.aggregateType)
	}
	if e, ok := keys["each"]; ok {
		c.each = p.in("each").ofPart(e.value, anyValue)
	}
	if e, ok := keys["key"]; ok {
		c.key = p.in("key").ofPart(e.value, anyValue)
	} else {
		p.problem(node, "the source has no key: an expression that gives the _id of the document, such as state.customerId")
	}
	if e, ok := keys["as"]; ok {
		c.as = p.in("as").text(e.value, documentField)
	}
	if e, ok := keys["keep"]; ok {
		p.in("keep").text(e.value, func(s string) error {
			if s != keepFields {
				return fmt.Errorf("keep is %s, with which the fields of the part are those of the document; leave it out and write as to have the part under its aggregate's id", keepFields)
			}
			return nil
		})
		if _, both := keys["as"]; both {
			p.problem(e.node, "as and keep: fields exclude each other")
		}
		c.fields, c.as = true, ""
	}
	all := map[string]contributedTotal{}
	maps.Copy(all, shared)
	if e, ok := keys["totals"]; ok {
		for name, t := range p.in("totals").totals(e.value) {
			if _, twice := all[name]; twice {
				p.problem(e.node, "the total %s is declared for all sources", name)
			}
			all[name] = t
		}
	}
	for _, name := range sortedKeys(all) {
		c.totals = append(c.totals, all[name])
	}
	if e, ok := keys["on"]; ok {
		p.handlers(e.value, &s)
	} else {
		p.problem(node, "the source has no on: its parts would never exist")
	}
	if e, ok := keys["compute"]; ok {
		p.compute(e, &s)
	}
	projection.sources = append(projection.sources, s)
}

// totals reads a mapping of names to totals.
func (p place) totals(node *yaml.Node) map[string]contributedTotal {
	entries, ok := p.entries(node)
	if !ok || len(entries) == 0 {
		p.problem(node, "totals is a mapping of names to totals, such as openCents: {sum: part.totalCents}")
		return nil
	}
	found := map[string]contributedTotal{}
	for _, e := range entries {
		at := p.in("totals " + e.key)
		if err := documentField(e.key); err != nil {
			at.problem(e.node, "%v", err)
		}
		keys, ok := at.keys(e.value, "a total", totalKeys)
		if !ok {
			continue
		}
		t := contributedTotal{total: total{name: e.key}}
		for _, kind := range totalKinds {
			e, ok := keys[string(kind)]
			if !ok {
				continue
			}
			if t.kind != "" {
				at.problem(e.node, "a total is one of sum, count, min, max and set, not %s and %s", t.kind, kind)
			}
			t.kind = kind
			switch {
			case kind != totalCount:
				want := anyValue
				if kind == totalSum {
					want = numberValue
				}
				t.value = at.ofPart(e.value, want)
			case e.value.Tag != "!!bool" || e.value.Value != "true":
				at.problem(e.value, "count is true; a condition stands in where")
			}
		}
		if t.kind == "" {
			at.problem(e.node, "the total does not say what it is: write one of sum, count, min, max and set, such as {sum: part.totalCents}")
		}
		if e, ok := keys["where"]; ok {
			t.where = at.ofPart(e.value, boolValue)
		}
		found[e.key] = t
	}
	return found
}

// ofPart compiles an expression of a view. It depends on the part only, and not on the list of
// documents, which it helps to make.
func (p place) ofPart(node *yaml.Node, want resultKind) *expression {
	env, err := ofView()
	if err != nil {
		p.problem(node, "make the environment of the expression: %v", err)
		return nil
	}
	x := p.compiled(node, env, want)
	if x == nil {
		return nil
	}
	for _, path := range inputs(x.checked.Expr()) {
		switch root := path[0]; {
		case root == varAggregateID || root == varAggregateType || root == varElement:
		case root != varState && root != varPart:
			p.problem(node, "the expression depends on the part only, and %s is of the event: store it with a rule, and read it here as a field of part", root)
		case len(path) == 1:
			p.problem(node, "the expression uses the whole part: name the fields that it reads, such as part.status")
		case path[1] == model.FieldDocuments:
			p.problem(node, "part.%s is what the expression helps to compute", model.FieldDocuments)
		}
	}
	return x
}

// documentField refuses names that a view document cannot have for a field with parts, or for
// a total.
func documentField(name string) error {
	switch {
	case name == model.FieldParts || model.EngineOwned(name):
		return fmt.Errorf("field %s belongs to Penstock: use another name", name)
	case strings.ContainsAny(name, specialInPaths):
		return fmt.Errorf("field %q has one of %s in its name", name, specialInPaths)
	}
	return updatable(name)
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("aggregateType is empty")
	}
	return nil
}

// viewFields collects the fields of the documents, and reports those that two meanings share.
func (p place) viewFields(node *yaml.Node, projection *Projection) {
	v := projection.view
	for i := range projection.sources {
		c := projection.sources[i].contribution
		if c.as != "" && !slices.Contains(v.as, c.as) {
			v.as = append(v.as, c.as)
		}
		for _, t := range c.totals {
			if i := slices.IndexFunc(v.totals, func(o total) bool { return o.name == t.name }); i < 0 {
				v.totals = append(v.totals, t.total)
			} else if v.totals[i].kind != t.kind {
				p.problem(node, "the total %s is %s of one source and %s of another", t.name, v.totals[i].kind, t.kind)
			}
		}
	}
	slices.Sort(v.as)
	slices.SortFunc(v.totals, func(a, b total) int { return strings.Compare(a.name, b.name) })
	for _, t := range v.totals {
		if slices.Contains(v.as, t.name) {
			p.problem(node, "%s holds parts, so no total can have the name", t.name)
		}
	}
	for i := range projection.sources {
		s := &projection.sources[i]
		for _, name := range s.fields() {
			switch {
			case name == model.FieldDocuments:
				p.problem(node, "the field %s of a part belongs to Penstock, which lists there the documents to which the part contributes: use another name", name)
			case s.contribution.fields && (name == model.FieldParts || slices.Contains(v.as, name) || v.hasTotal(name)):
				p.problem(node, "the field %s of %s is also one of the document's own: use another name, or leave out keep", name, s.aggregateType)
			}
		}
	}
}

// fields are the top-level fields that the rules and computed fields of a source change.
func (from *source) fields() []string {
	all := map[string]bool{}
	for _, rules := range from.on {
		for _, h := range rules {
			for i := range h.operations {
				all[h.operations[i].path[0].name] = true
			}
		}
	}
	for i := range from.compute {
		all[from.compute[i].path[0].name] = true
	}
	return sortedKeys(all)
}

// describeView adds the sources and totals of a view to its definition.
func (l *loader) describeView(p *Projection, definition map[string]any) error {
	sources := make([]any, len(p.sources))
	for i := range p.sources {
		s := &p.sources[i]
		described, err := l.describeRules(s, quotedName, definition)
		if err != nil {
			return err
		}
		described["aggregateType"] = s.aggregateType
		if err := s.contribution.describe(described); err != nil {
			return err
		}
		sources[i] = described
	}
	slices.SortFunc(sources, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["aggregateType"].(string), b.(map[string]any)["aggregateType"].(string))
	})
	definition["from"] = sources
	return nil
}

func (c *contribution) describe(described map[string]any) error {
	env, err := ofView()
	if err != nil {
		return err
	}
	d := describer{env: env}
	described["key"] = d.source(c.key)
	if c.each != nil {
		described["each"] = d.source(c.each)
	}
	if c.as != "" {
		described["as"] = c.as
	}
	if c.fields {
		described["keep"] = keepFields
	}
	if len(c.totals) == 0 {
		return nil
	}
	totals := map[string]any{}
	for _, t := range c.totals {
		one := map[string]any{string(t.kind): true}
		if t.value != nil {
			one[string(t.kind)] = d.source(t.value)
		}
		if t.where != nil {
			one["where"] = d.source(t.where)
		}
		totals[t.name] = one
	}
	described["totals"] = totals
	return nil
}
