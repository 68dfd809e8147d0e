package projection

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/yamlplace"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

var (
	viewKeys       = []string{"name", "collection", "from", "as", "totals"}
	viewSourceKeys = []string{"aggregateType", "key", "each", "as", "keep", "on", "compute", "totals"}
	totalKeys      = []string{"sum", "count", "min", "max", "set", "by", "where"}
	listKeys       = []string{"list", "sort"}
)

// keepFields is the value of keep with which a document has the fields of a part.
const keepFields = "fields"

// viewReader reads one view.
type viewReader struct {
	place
	view *Projection
	// as and totals are those for all sources.
	as     string
	totals []declaredTotal
	// forms has the form of each name that as gives: whether it is a list, and the order of it.
	forms map[string]string
	// nodes are those of the sources, or of their keep. named has a node of each total.
	nodes []*yaml.Node
	named map[string]*yaml.Node
}

// declaredTotal is a total of one source, or of all.
type declaredTotal struct {
	contributedTotal
	node *yaml.Node
}

// viewDeclaration reads one view.
func (p place) viewDeclaration(node *yaml.Node) {
	keys, ok := p.keys(node, "a view", viewKeys)
	if !ok {
		return
	}
	before := len(p.problems)
	p.reads = map[string][][]string{}
	r := &viewReader{view: &Projection{view: &fold.View{Lists: map[string]fold.Order{}}}, named: map[string]*yaml.Node{}, forms: map[string]string{}}
	r.place = p.identity(node, keys, r.view)
	p.reading = nil
	if e, ok := keys["totals"]; ok {
		r.totals = r.in("totals").totals(e.Value)
	}
	shared := p.reading
	if e, ok := keys["as"]; ok {
		r.as = r.embeddedAs(e.Value)
	}
	from, ok := keys["from"]
	switch {
	case !ok:
		r.problem(node, "the view has no from: a list of its sources, each with an aggregateType, a key and the rules of on")
		return
	case from.Value.Kind != yaml.SequenceNode || len(from.Value.Content) == 0:
		r.problem(from.Node, "from is a list of sources: each starts with a dash, and has an aggregateType, a key and the rules of on")
		return
	}
	for _, item := range from.Value.Content {
		r.source(yamlplace.Resolve(item))
	}
	r.checkFields()
	all := handlers{}
	for i := range r.view.sources {
		maps.Copy(all, r.view.sources[i].on)
	}
	r.view.upcasts = r.upcast.all.of(all)
	if len(r.problems) == before {
		r.reading = shared
		r.adviseOnView()
	}
	r.finish(node, r.view, before)
}

// source reads one source of a view.
func (r *viewReader) source(node *yaml.Node) {
	keys, ok := r.keys(node, "a source of a view", viewSourceKeys)
	if !ok {
		return
	}
	before := len(r.problems)
	r.reading = nil
	c := &contribution{as: r.as, view: r.view.view}
	s := source{on: handlers{}, contribution: c}
	if e, ok := keys["aggregateType"]; ok {
		s.aggregateType = r.in("aggregateType").text(e.Value, notEmpty)
		if s.aggregateType != "" && slices.ContainsFunc(r.view.sources, func(o source) bool { return o.aggregateType == s.aggregateType }) {
			r.problem(e.Value, "there is a source of %s already: write the rules into one source", s.aggregateType)
			return
		}
	} else {
		r.problem(node, "the source has no aggregateType: a view takes aggregates of types that it names")
	}
	each, hasEach := keys["each"]
	if hasEach {
		c.each = r.in("each").ofPart(each.Value, listValue, false)
	}
	if e, ok := keys["key"]; ok {
		c.key = r.in("key").ofPart(e.Value, keyValue, hasEach)
	} else {
		r.problem(node, "the source has no key: an expression that gives the _id of the document, such as state.customerId")
	}
	r.embedding(c, keys)
	totals := slices.Clone(r.totals)
	if e, ok := keys["totals"]; ok {
		for _, t := range r.in("totals").totals(e.Value) {
			if slices.ContainsFunc(r.totals, func(o declaredTotal) bool { return o.Name == t.Name }) {
				r.in("totals "+t.Name).problem(t.node, "the total is declared for all sources already, below the totals of the view")
			}
			totals = append(totals, t)
		}
	}
	slices.SortFunc(totals, func(a, b declaredTotal) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range totals {
		if !hasEach && t.reads(varElement) {
			r.in("totals "+t.Name).problem(t.node, "the total uses element, and %s has no each: declare the total in the sources that have each", s.aggregateType)
		}
		c.totals = append(c.totals, t.contributedTotal)
		r.named[t.Name] = t.node
	}
	if e, ok := keys["on"]; ok {
		r.handlers(e.Value, &s)
	} else {
		r.problem(node, "the source has no on: its parts would never exist")
	}
	if e, ok := keys["compute"]; ok {
		r.compute(e, &s)
	}
	if keep, ok := keys["keep"]; ok {
		node = keep.Node
	}
	r.view.sources, r.nodes = append(r.view.sources, s), append(r.nodes, node)
	if len(r.problems) == before {
		r.adviseOnReading(s.fields())
	}
}

// embedding reads whether documents have the part of a source in them.
func (r *viewReader) embedding(c *contribution, keys map[string]yamlplace.Entry) {
	as, hasAs := keys["as"]
	if hasAs {
		c.as = r.embeddedAs(as.Value)
	}
	keep, ok := keys["keep"]
	if !ok {
		return
	}
	if hasAs {
		r.problem(keep.Node, "as and keep: fields exclude each other: the part is in a field of the document, or its fields are the document's")
	}
	r.in("keep").text(keep.Value, func(s string) error {
		if s == keepFields {
			c.fields, c.as = true, ""
			return nil
		}
		return fmt.Errorf("keep is %s, with which the fields of the part are those of the document; leave it out and write as to have the part under its aggregate's id", keepFields)
	})
}

// embeddedAs reads as: the name of a field, or a mapping of it to the order of a list.
func (r *viewReader) embeddedAs(node *yaml.Node) (field string) {
	p, form := r.in("as"), ""
	defer func() {
		if known, ok := r.forms[field]; ok && known != form {
			p.problem(node, "%s is declared in another way before: all sources have the same list and sort", field)
		}
		r.forms[field] = form
	}()
	entries, ok := p.entries(node)
	if !ok {
		return p.text(node, documentField)
	}
	if len(entries) != 1 {
		p.problem(node, "as is the name of a field, or of one list, such as orders: {list: true, sort: placedAt}")
		return ""
	}
	e := entries[0]
	if err := documentField(e.Key); err != nil {
		p.problem(e.Node, "%v", err)
	}
	keys, ok := p.in("as "+e.Key).keys(e.Value, "a list of parts", listKeys)
	if !ok {
		return e.Key
	}
	if list, ok := keys["list"]; !ok || list.Value.Tag != "!!bool" || list.Value.Value != "true" {
		p.problem(e.Value, "a list has list: true; write as: %s to have the parts under their aggregates' ids", e.Key)
	}
	var order fold.Order
	if sort, ok := keys["sort"]; ok {
		order = fold.Order(p.text(sort.Value, func(s string) error { return documentField(fold.Order(s).Field()) }))
	}
	r.view.view.Lists[e.Key], form = order, "list "+string(order)
	return e.Key
}

// totals reads a mapping of names to totals.
func (p place) totals(node *yaml.Node) (found []declaredTotal) {
	entries, ok := p.entries(node)
	if !ok || len(entries) == 0 {
		p.problem(node, "totals is a mapping of names to totals, such as openCents: {sum: part.totalCents}")
		return nil
	}
	for _, e := range entries {
		at := p.in("totals " + e.Key)
		if err := documentField(e.Key); err != nil {
			at.problem(e.Node, "%v", err)
		}
		if t, ok := at.total(e); ok {
			found = append(found, t)
		}
	}
	return found
}

// total reads one total.
func (p place) total(e yamlplace.Entry) (declaredTotal, bool) {
	t := declaredTotal{node: e.Node, contributedTotal: contributedTotal{
		Total: fold.Total{Name: e.Key},
		doing: operation{op: "total", path: fieldPath{{name: e.Key}}},
	}}
	before := len(p.problems)
	keys, ok := p.keys(e.Value, "a total", totalKeys)
	if !ok {
		return t, false
	}
	for _, kind := range fold.TotalKinds {
		e, ok := keys[string(kind)]
		switch {
		case !ok:
			continue
		case t.Kind != "":
			p.problem(e.Node, "a total is one of sum, count, min, max and set, not %s and %s", t.Kind, kind)
			continue
		}
		t.Kind = kind
		switch {
		case kind == fold.TotalSum:
			t.value = p.ofPart(e.Value, numberValue, true)
			t.Decimals = t.value.callsDecimal()
		case kind != fold.TotalCount:
			t.value = p.ofPart(e.Value, anyValue, true)
		case e.Value.Tag != "!!bool" || e.Value.Value != "true":
			p.problem(e.Value, "count counts each part once and takes true; a condition stands in where, such as {count: true, where: part.status == 'open'}")
		}
	}
	if t.Kind == "" && len(p.problems) == before {
		p.problem(e.Node, "the total does not say what it is: write one of sum, count, min, max and set, such as {sum: part.totalCents}")
	}
	if e, ok := keys["by"]; ok {
		if t.by = p.ofPart(e.Value, nameValue, true); t.Kind != "" && !t.Kind.Adds() {
			p.problem(e.Node, "only sum and count can be by a key, not %s", t.Kind)
		}
		t.ByKey = true
	}
	if e, ok := keys["where"]; ok {
		t.where = p.ofPart(e.Value, boolValue, true)
	}
	return t, true
}

// callsDecimal reports whether the value is what decimal() returns. The type that CEL computes does
// not say so: [decimal(1)] + part.list is a list of Decimal128s to it.
func (x *expression) callsDecimal() bool {
	return x != nil && x.checked.Expr().AsCall().FunctionName() == "decimal"
}

// reads reports whether the total uses a variable.
func (t *contributedTotal) reads(variable string) bool {
	return slices.ContainsFunc([]*expression{t.value, t.where, t.by}, func(x *expression) bool { return x.reads(variable) })
}

// reads reports whether the expression, which can be nil, uses a variable.
func (x *expression) reads(variable string) bool {
	return x != nil && slices.ContainsFunc(inputs(x.checked.Expr()), func(path []string) bool { return path[0] == variable })
}

// ofPart compiles an expression of a view. It depends on the part only, and not on the list of
// documents, which it helps to make. element says whether it may use an element of each.
func (p place) ofPart(node *yaml.Node, want resultKind, element bool) *expression {
	env, err := ofView()
	if err != nil {
		p.problem(node, "make the environment of the expression: %v", err)
		return nil
	}
	x := p.compiled(node, env, want)
	p.read(node, x)
	if x == nil {
		return nil
	}
	for _, path := range inputs(x.checked.Expr()) {
		switch root := path[0]; {
		case root == varElement && !element:
			p.problem(node, "element is an element of each, which gives a list: write each beside key, such as each: state.lines")
		case root == varAggregateID || root == varAggregateType || root == varElement:
		case root != varState && root != varPart:
			p.problem(node, "the expression depends on the part only, and %s is of the event: store it with a rule, and read it here as a field of part", root)
		case len(path) == 1:
			p.problem(node, "the expression uses the whole part: name the fields that it reads, such as part.status")
		case path[1] == model.FieldDocuments:
			p.problem(node, "part.%s is what the expression helps to compute: read another field", model.FieldDocuments)
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
	return fold.Updatable(name)
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("aggregateType is empty")
	}
	return nil
}

// checkFields collects the fields of the documents, and reports those that two meanings share.
func (r *viewReader) checkFields() {
	v := r.view.view
	for i := range r.view.sources {
		c := r.view.sources[i].contribution
		if c.as != "" && !slices.Contains(v.As, c.as) {
			v.As = append(v.As, c.as)
		}
		for _, t := range c.totals {
			if i := slices.IndexFunc(v.Totals, func(o fold.Total) bool { return o.Name == t.Name }); i < 0 {
				v.Totals = append(v.Totals, t.Total)
			} else if is := v.Totals[i]; is.Kind != "" && t.Kind != "" && is.Form() != t.Form() {
				r.problem(r.named[t.Name], "the total %s is %s of one source and %s of another", t.Name, is.Form(), t.Form())
			} else {
				v.Totals[i].Decimals = v.Totals[i].Decimals && t.Decimals
			}
		}
	}
	v.Alone = givesFieldsAlone(r.view.sources)
	slices.Sort(v.As)
	slices.SortFunc(v.Totals, func(a, b fold.Total) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range v.Totals {
		if slices.Contains(v.As, t.Name) {
			r.problem(r.named[t.Name], "%s holds parts, so no total can have the name", t.Name)
		}
	}
	for i := range r.view.sources {
		s := &r.view.sources[i]
		_, list := v.Lists[s.contribution.as]
		for _, name := range s.fields() {
			switch {
			case name == model.FieldDocuments:
				r.problem(r.nodes[i], "the field %s of a part belongs to Penstock, which lists there the documents to which the part contributes: use another name", name)
			case list && s.contribution.each == nil && name == fold.FieldAggregateID:
				r.problem(r.nodes[i], "an element of a list has the id of its aggregate in the field %s, so %s cannot have a field of this name: use another name", name, s.aggregateType)
			case s.contribution.fields && v.OwnField(name):
				r.problem(r.nodes[i], "the field %s of %s is also one of the document's own: use another name, or leave out keep", name, s.aggregateType)
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

// describeSources returns the sources of a view in canonical form.
func describeSources(sources []source) []any {
	described := make([]any, len(sources))
	for i, s := range slices.SortedFunc(slices.Values(sources), func(a, b source) int { return strings.Compare(a.aggregateType, b.aggregateType) }) {
		one := s.describe()
		one["aggregateType"] = s.aggregateType
		s.contribution.describe(one)
		described[i] = one
	}
	return described
}

func (c *contribution) describe(described map[string]any) {
	described["key"] = c.key.canonical
	if c.each != nil {
		described["each"] = c.each.canonical
	}
	if order, ok := c.view.Lists[c.as]; ok {
		list := map[string]any{"list": true}
		if order != "" {
			list["sort"] = order
		}
		described["as"] = map[string]any{c.as: list}
	} else if c.as != "" {
		described["as"] = c.as
	}
	if c.fields {
		described["keep"] = keepFields
	}
	if len(c.totals) == 0 {
		return
	}
	totals := map[string]any{}
	for _, t := range c.totals {
		one := map[string]any{string(t.Kind): true}
		if t.value != nil {
			one[string(t.Kind)] = t.value.canonical
		}
		for word, x := range map[string]*expression{"by": t.by, "where": t.where} {
			if x != nil {
				one[word] = x.canonical
			}
		}
		totals[t.Name] = one
	}
	described["totals"] = totals
}

// givesFieldsAlone reports whether a document has the fields of one part only: that of the
// aggregate whose id is the key.
func givesFieldsAlone(sources []source) bool {
	kept := 0
	for i := range sources {
		if c := sources[i].contribution; c.fields {
			kept++
			if c.each != nil || c.key == nil || c.key.canonical != varAggregateID {
				return false
			}
		}
	}
	return kept == 1
}
