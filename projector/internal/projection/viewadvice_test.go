package projection_test

import (
	"strings"
	"testing"
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
		"embedded":      {"key: state.customer\nas: orders", "", nil},
		"wrong field":   {"key: state.custmer\nas: orders", "", []string{"key: no rule sets state.custmer (did you mean customer?), so it is always null"}},
		"accepted":      {"key: state.custmer # accepted: its events come later\nas: orders", "", nil},
		"wrong list":    {"each: part.line\nkey: element.sku\nas: orders", "", []string{"each: no rule sets part.line (did you mean lines?)"}},
		"computed":      {"key: part.buyer\nas: orders\ncompute: {buyer: state.customer}", "", nil},
		"wrong total":   {"key: part.customer\ntotals: {cents: {sum: part.cents, where: part.open}}", "", []string{"totals cents: no rule sets part.cents, so it is always null", "totals cents: no rule sets part.open"}},
		"total of all":  {"key: part.customer\nas: orders", keptCustomer + "totals: {names: {set: part.name}, cents: {sum: part.cents}}", []string{"totals cents: no rule sets part.cents"}},
		"element":       {"each: part.lines\nkey: part.customer\ntotals: {cents: {sum: element.cents}}", "", nil},
		"sort":          {"key: state.customer\nas: {orders: {list: true, sort: -customer}}", "", nil},
		"wrong sort":    {"key: state.customer\nas: {orders: {list: true, sort: custmer}}", "", []string{"as orders: no rule sets custmer (did you mean customer?), by which the list is sorted"}},
		"sort by id":    {"key: state.customer\nas: {orders: {list: true, sort: -aggregateId}}", "", []string{"as orders: no rule sets aggregateId, by which the list is sorted"}},
		"sort elements": {"each: part.lines\nkey: element.sku\nas: {orders: {list: true, sort: cents}}", "", nil},
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
