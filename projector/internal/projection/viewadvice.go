package projection

import (
	"slices"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

// adviseOnView reports what works in a view but is most likely a mistake.
func (r *viewReader) adviseOnView() {
	var fields []string
	for i := range r.view.sources {
		fields = append(fields, r.view.sources[i].fields()...)
	}
	r.adviseOnReading(fields)
	for _, as := range r.view.view.As {
		r.adviseOnSort(as, r.view.view.Lists[as].Field())
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
