package projection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// adviseOnSource reports what works in a source of a view but is most likely a mistake.
func (r *viewReader) adviseOnSource(s *source, keys map[string]entry, totals []declaredTotal) {
	c := s.contribution
	fields := s.fields()
	for _, key := range []string{"each", "key"} {
		if e, ok := keys[key]; ok {
			x := c.key
			if key == "each" {
				x = c.each
			}
			for _, name := range x.unset(fields) {
				r.in(key).advise(e.value, "no rule of %s sets %s%s, so it is null in each part: a part without a key is in no document", s.aggregateType, name, similar.Meant(name, fields))
			}
		}
	}
	element := c.key.reads(varElement)
	for _, t := range totals {
		element = element || t.reads(varElement)
		if slices.ContainsFunc(r.totals, func(o declaredTotal) bool { return o.Name == t.Name }) {
			continue // another source may set the fields
		}
		for _, name := range slices.Concat(t.value.unset(fields), t.where.unset(fields)) {
			r.in("totals "+t.Name).advise(t.node, "no rule of %s sets %s%s, so it is null in each part and adds nothing", s.aggregateType, name, similar.Meant(name, fields))
		}
	}
	switch e := keys["each"]; {
	case c.each != nil && !element && c.as == "" && !c.fields:
		r.in("each").advise(e.value, "nothing uses the elements, so the list changes nothing: name them in key or in a total, such as element.sku")
	case len(c.totals) == 0 && c.as == "" && !c.fields:
		r.advise(keys["key"].node, "a document shows nothing of the parts of %s except their number: write as, keep: fields or totals", s.aggregateType)
	}
}

// adviseOnView reports what works in a view but is most likely a mistake.
func (r *viewReader) adviseOnView() {
	var fields, kept []string
	for i := range r.view.sources {
		s := &r.view.sources[i]
		fields = append(fields, s.fields()...)
		if s.contribution.fields {
			kept = append(kept, s.aggregateType)
		}
	}
	for _, t := range r.totals {
		at := r.in("totals " + t.Name)
		for _, name := range slices.Concat(t.value.unset(fields), t.where.unset(fields)) {
			at.advise(t.node, "no rule of the view sets %s%s, so it is null in each part and adds nothing", name, similar.Meant(name, fields))
		}
		if t.Kind == fold.TotalCount && t.where == nil && len(kept) > 0 && len(r.view.sources) > len(kept) {
			at.advise(t.node, "it counts the parts of all sources, those of %s too: write it into the source whose parts it counts", strings.Join(kept, ", "))
		}
	}
}

// unset returns the fields of the part that the expression reads and that are not among those
// that rules set.
func (x *expression) unset(fields []string) (names []string) {
	if x == nil {
		return nil
	}
	for _, path := range inputs(x.checked.Expr()) {
		if part := path[0] == varState || path[0] == varPart; part && len(path) > 1 && !slices.Contains(fields, path[1]) && !slices.Contains(names, path[1]) {
			names = append(names, path[1])
		}
	}
	return names
}

// Form says, in lines for authors, what documents of a view have and what their writes cost;
// nil unless the projection is a view.
func (p *Projection) Form() []string {
	if p.view == nil {
		return nil
	}
	lines := []string{"an event's part and the documents that it changes are written in one transaction"}
	for i := range p.sources {
		s := &p.sources[i]
		what, shown := "each part", "only totals have it"
		if s.contribution.each != nil {
			what = "each element of a part"
		}
		switch {
		case s.contribution.fields:
			shown = "its fields are the document's own"
			if !p.view.Alone {
				shown += "; when they change, all parts of the document are read"
			}
		case s.contribution.as != "":
			shown = fmt.Sprintf("it is in the document's %s; the document has at most %d aggregates in it and %d MiB", s.contribution.as, fold.MaxEmbedded, fold.MaxEmbeddedBytes>>20)
		}
		lines = append(lines, fmt.Sprintf("%s of %s: %s", what, s.aggregateType, shown))
	}
	cheap, dear := "", ""
	for _, t := range p.view.Totals {
		if t.Kind == fold.TotalSum || t.Kind == fold.TotalCount {
			cheap += ", " + t.String()
		} else {
			dear += ", " + t.String()
		}
	}
	if cheap != "" {
		lines = append(lines, cheap[2:]+": computed from the changed part alone")
	}
	if dear != "" {
		lines = append(lines, dear[2:]+": when the value of a part goes, all parts of the document are read")
	}
	return lines
}
