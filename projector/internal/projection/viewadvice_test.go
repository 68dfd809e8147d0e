package projection_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// viewOf returns a view of orders, with the lines of a source and of the view.
func viewOf(source, view string) string {
	text := "views:\n  - name: v\n    collection: v\n    from:\n      - aggregateType: Order\n        on: {Placed: {set: {customer: payload.customer, lines: payload.lines}}}\n"
	for line := range strings.SplitSeq(source, "\n") {
		text += "        " + line + "\n"
	}
	if view != "" {
		text += "    " + strings.ReplaceAll(view, "\n", "\n    ") + "\n"
	}
	return text
}

const keptCustomer = "  - {aggregateType: Customer, key: aggregateId, keep: fields, on: {Named: {set: {name: payload.name}}}}\n"

// TestCheckAdvisesOnViews checks which valid views are reported as probable mistakes.
func TestCheckAdvisesOnViews(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source, view string
		says         []string
	}{
		"embedded":       {"key: state.customer\nas: orders", "", nil},
		"wrong field":    {"key: state.custmer\nas: orders", "", []string{"key: no rule sets state.custmer (did you mean customer?), so it is always null"}},
		"accepted":       {"key: state.custmer # accepted: its events come later\nas: orders", "", nil},
		"wrong list":     {"each: part.line\nkey: element.sku\nas: orders", "", []string{"each: no rule sets part.line (did you mean lines?)"}},
		"computed":       {"key: part.buyer\nas: orders\ncompute: {buyer: state.customer}", "", nil},
		"wrong total":    {"key: part.customer\ntotals: {cents: {sum: part.cents, where: part.open}}", "", []string{"totals cents: no rule sets part.cents, so it is always null", "totals cents: no rule sets part.open"}},
		"total of all":   {"key: part.customer\nas: orders", keptCustomer + "totals: {names: {set: part.name}, cents: {sum: part.cents}}", []string{"totals cents: no rule sets part.cents"}},
		"count of all":   {"key: part.customer\nas: orders", keptCustomer + "totals: {number: {count: true}}", []string{"totals number: it counts the parts of all sources, those of Customer too: write it into the source whose parts it counts"}},
		"count of one":   {"key: part.customer\ntotals: {orders: {count: true}}", keptCustomer, nil},
		"count with":     {"key: part.customer\nas: orders", keptCustomer + "totals: {named: {count: true, where: has(part.name)}}", nil},
		"unused element": {"each: part.lines\nkey: part.customer\ntotals: {orders: {count: true}}", "", []string{"each: nothing uses the elements, so the list changes nothing: name them in key or in a total, such as element.sku"}},
		"element":        {"each: part.lines\nkey: part.customer\ntotals: {cents: {sum: element.cents}}", "", nil},
		"sort":           {"key: state.customer\nas: {orders: {list: true, sort: -customer}}", "", nil},
		"wrong sort":     {"key: state.customer\nas: {orders: {list: true, sort: custmer}}", "", []string{"as orders: no rule sets custmer (did you mean customer?), by which the list is sorted"}},
		"sort by id":     {"key: state.customer\nas: {orders: {list: true, sort: -aggregateId}}", "", []string{"as orders: no rule sets aggregateId, by which the list is sorted"}},
		"sort elements":  {"each: part.lines\nkey: element.sku\nas: {orders: {list: true, sort: cents}}", "", nil},
		"nothing":        {"key: part.customer", "", []string{"a document shows nothing of the parts of Order except their number: write as, keep: fields or totals"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			advice := adviceOn(t, viewOf(test.source, test.view))
			if len(advice) != len(test.says) {
				t.Fatalf("says %v", advice)
			}
			for i, says := range test.says {
				if !strings.Contains(advice[i].String(), "projection v: "+says) {
					t.Errorf("says %s, want %s", advice[i], says)
				}
			}
		})
	}
}

// TestForm checks what an author is told about the documents of a view and their cost.
func TestForm(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, viewOf("each: part.lines\nkey: element.sku\nas: orders\ntotals: {cents: {sum: element.cents}, skus: {set: element.sku}}",
		keptCustomer+"  - {aggregateType: Visit, key: aggregateId, on: {Seen: {set: {at: timestamp}}}}\ntotals: {last: {max: part.at}}")+
		"projections: [{name: p, collection: p, on: {E: {delete: true}}}]\n")
	want := []string{
		"an event's part and the documents that it changes are written in one transaction",
		"each element of a part of Order: it is in the document's orders; the document has at most 1000 aggregates in it and 4 MiB",
		"each part of Customer: its fields are the document's own",
		"each part of Visit: only totals have it",
		"cents (sum): computed from the changed part alone",
		"last (max), skus (set): when the value of a part goes, all parts of the document are read",
	}
	for _, p := range projections {
		if got := p.Form(); p.View() == nil && got != nil || p.View() != nil && !slices.Equal(got, want) {
			t.Errorf("%s: %q", p.Name(), got)
		}
	}
}
