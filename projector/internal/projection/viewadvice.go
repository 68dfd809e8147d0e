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
	element := c.key.reads(varElement) || slices.ContainsFunc(totals, func(t declaredTotal) bool { return t.reads(varElement) })
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
	r.adviseOnReading(fields)
	for _, as := range r.view.view.As {
		r.adviseOnSort(as, r.view.view.Lists[as].Field())
	}
	for _, t := range r.totals {
		if t.Kind == fold.TotalCount && t.where == nil && t.by == nil && len(kept) > 0 && len(r.view.sources) > len(kept) {
			r.in("totals "+t.Name).advise(t.node, "it counts the parts of all sources, those of %s too: write it into the source whose parts it counts", strings.Join(kept, ", "))
		}
	}
}

// adviseOnSort reports a field by which a list is sorted and that no rule of its sources sets. The
// fields of elements of each are not known.
func (r *viewReader) adviseOnSort(as, field string) {
	var fields []string
	node := r.nodes[0]
	for i := range r.view.sources {
		switch s := &r.view.sources[i]; {
		case s.contribution.as != as:
		case s.contribution.each != nil:
			return
		default:
			fields, node = append(fields, s.fields()...), r.nodes[i]
		}
	}
	if field != "" && !slices.Contains(fields, field) {
		r.in("as "+as).advise(node, "no rule sets %s%s, by which the list is sorted, so its order is that of the aggregates' ids", field, similar.Meant(field, fields))
	}
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
	for _, group := range []struct {
		adds bool
		says string
	}{{true, "computed from the changed part alone"}, {false, "when the value of a part goes, all parts of the document are read"}} {
		var totals []string
		for _, t := range p.view.Totals {
			if t.Kind.Adds() == group.adds {
				totals = append(totals, t.String())
			}
		}
		if len(totals) > 0 {
			lines = append(lines, strings.Join(totals, ", ")+": "+group.says)
		}
	}
	return lines
}
