package operate

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// shopEvents has the events of an order that moves between customers, and of another one.
const shopEvents = `{"aggregateId":"o-1","aggregateType":"Order","eventId":1,"eventType":"OrderPlaced","timestamp":{"$date":"2026-01-01T00:00:00Z"},"payload":{"customerId":"c-1","totalCents":500,"lines":[{"sku":"tea","quantity":2},{"sku":"tea","quantity":1}]}}
{"aggregateId":"o-1","aggregateType":"Order","eventId":2,"eventType":"OrderShipped","payload":{}}
{"aggregateId":"o-1","aggregateType":"Order","eventId":3,"eventType":"OrderAssigned","payload":{"customerId":"c-2"}}
{"aggregateId":"o-2","aggregateType":"Order","eventId":1,"eventType":"OrderPlaced","timestamp":{"$date":"2026-01-01T00:00:00Z"},"payload":{"customerId":"c-1","totalCents":700,"lines":[]}}
`

// TestExplainShowsViews compares the printed text: how key and totals were evaluated, and which
// documents got, counted differently and lost the part.
func TestExplainShowsViews(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PENSTOCK_PROJECTIONS": writeFile(t, "shop.yaml", shopViews)}
	events := writeFile(t, "events.json", shopEvents)
	out, problems, err := runLine(t, env, "explain", "--aggregate", "o-1", "--from", events, "--projection", "customerOrders")
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	_, steps, _ := strings.Cut(out, "event 2")
	if out, problems, err := runLine(t, env, "explain", "--aggregate", "o-1", "--from", events, "--projection", "customerOrders", "--document"); err != nil || !strings.HasPrefix(out, "{") ||
		!strings.Contains(problems, `this is the part of aggregate "o-1" in the view customerOrders, not one of the documents that readers see; it contributes to: c-2`) {
		t.Errorf("%v\n%s\n%s", err, problems, out)
	}
	const want = `  OrderShipped  applied
  set status: 'shipped'  =>  "shipped"
  key: state.customerId  =>  "c-1"
  total lastPlaced: part.placedAt  =>  {"$date":"2026-01-01T00:00:00Z"}
  total openCents: where: part.status == 'open'  =>  false
      part.status = "shipped"
  status: "open" -> "shipped"
  document c-1 counts the part differently
      openCents: 500 -> absent

event 3  OrderAssigned  applied
  set customerId: payload.customerId  =>  "c-2"
  key: state.customerId  =>  "c-2"
  total lastPlaced: part.placedAt  =>  {"$date":"2026-01-01T00:00:00Z"}
  total openCents: where: part.status == 'open'  =>  false
      part.status = "shipped"
  customerId: "c-1" -> "c-2"
  document c-1 loses the part
      count: 1 -> absent
      lastPlaced: {"$date":"2026-01-01T00:00:00Z"} -> absent
  document c-2 gets the part
      count: absent -> 1
      lastPlaced: absent -> {"$date":"2026-01-01T00:00:00Z"}
the part after event 3:
  {
    "customerId": "c-2",
    "status": "shipped",
    "totalCents": 500,
    "placedAt": {
      "$date": "2026-01-01T00:00:00Z"
    }
  }
it contributes to c-2
`
	if steps != want || !strings.HasPrefix(out, "view customerOrders (definition ") || !strings.Contains(out, "applied: the part is created") {
		t.Errorf("printed\n%s", out)
	}
	for projection, says := range map[string]string{
		"productSales":   "each: state.lines  =>  [{\"sku\":\"tea\",\"quantity\":2},{\"sku\":\"tea\",\"quantity\":1}]\n  key: element.sku  =>  \"tea\"\n",
		"customerOrders": "it contributes to c-1\n",
	} {
		id := map[string]string{"productSales": "o-1", "customerOrders": "o-2"}[projection]
		out, problems, err := runLine(t, env, "explain", "--aggregate", id, "--from", events, "--projection", projection)
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("%v\n%s%s", err, problems, out)
		}
	}
	out, problems, err = runLine(t, env, "explain", "--aggregate", "o-2", "--from", events, "--projection", "productSales")
	if err != nil || !strings.Contains(out, "it contributes to no document: it has no key, or each gives no elements") {
		t.Errorf("%v\n%s%s", err, problems, out)
	}
}

// TestDiffShowsViews compares the lines about a view whose key and totals change.
func TestDiffShowsViews(t *testing.T) {
	t.Parallel()
	changed := strings.NewReplacer("key: state.customerId", "key: state.status", "{sum: element.quantity}", "{sum: element.quantity + 1}").Replace(shopViews)
	out, problems, err := runLine(t, nil, "diff", writeFile(t, "old.yaml", shopViews), writeFile(t, "new.yaml", changed), "--from", writeFile(t, "events.json", shopEvents))
	if !errors.Is(err, cli.ErrFindings) {
		t.Fatalf("%v\n%s", err, problems)
	}
	for _, want := range []string{
		"  - from Order key: state.customerId\n  + from Order key: state.status\n  of 2 sampled aggregates that concern it, 2 would have a different part of the view, 0 would get a part of the view, 0 would lose their part of the view\n    its document differs in 2, such as o-1: c-2 -> shipped\n",
		"  - from Order totals sold sum: element.quantity\n  + from Order totals sold sum: element.quantity+1\n  of 2 sampled aggregates that concern it, 1 would have a different part of the view, ",
		"    what it adds to sold differs in 1, such as o-1: [2,1] -> [3,2]\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("printed\n%s\nwithout\n%s", out, want)
		}
	}
	for shown, want := range map[string]string{
		"as: {sold: {list: true}}": `what it adds to sold differs in 1, such as o-1: [{"sku":"tea","quantity":2},{"sku":"tea","quantity":1}] -> {"sku":"tea","quantity":2}`,
		"keep: fields":             "what it adds to quantity differs in 1, such as o-1: [2,1] -> 2\n",
	} {
		view := "views: [{name: v, collection: v, from: [{aggregateType: Order, on: {OrderPlaced: {set: {lines: payload.lines}}}, each: 'state.lines', key: element.sku, " + shown + "}]}]"
		filtered := strings.Replace(view, "'state.lines'", "'state.lines.filter(l, l.quantity > 1)'", 1)
		out, problems, err := runLine(t, nil, "diff", writeFile(t, "old.yaml", view), writeFile(t, "new.yaml", filtered), "--from", writeFile(t, "events.json", shopEvents))
		if !errors.Is(err, cli.ErrFindings) || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s%s", shown, err, problems, out)
		}
	}
}

// A change that no part shows is a finding: the documents differ. A condition of a total is none,
// because the parts show its effect.
func TestDiffNamesChangedDocumentsOfAView(t *testing.T) {
	t.Parallel()
	const view = "views: [{name: v, collection: v, from: [{aggregateType: Order, on: {OrderPlaced: {set: {cents: payload.totalCents}}}, key: \"'all'\", SHOWS}]}]"
	events := writeFile(t, "events.json", shopEvents)
	const total = "totals: {t: {min: part.cents}}"
	for _, test := range []struct {
		before, after string
		differs       bool
	}{
		{"as: {orders: {list: true}}", "as: {orders: {list: true, sort: cents}}", true},
		{"as: {orders: {list: true}}", "as: orders", true},
		{"as: orders", "as: other", true},
		{"as: orders", "keep: fields", true},
		{total, "totals: {t: {max: part.cents}}", true},
		{total, "totals: {t: {min: part.cents * 1}}", false},
		{total, "totals: {t: {min: part.cents, where: part.cents > 0}}", false},
	} {
		before, after := writeFile(t, "old.yaml", strings.Replace(view, "SHOWS", test.before, 1)), writeFile(t, "new.yaml", strings.Replace(view, "SHOWS", test.after, 1))
		out, problems, err := runLine(t, nil, "diff", before, after, "--from", events)
		if errors.Is(err, cli.ErrFindings) != test.differs || strings.Contains(out, "the documents of the view change, too") != test.differs || !strings.Contains(out, "2 sampled aggregates that concern it, 0 would have a different part") {
			t.Errorf("%s -> %s: %v\n%s%s", test.before, test.after, err, problems, out)
		}
	}
}

// TestProjectionsShowViews checks that lists and the status name views and their sources.
func TestProjectionsShowViews(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, "projections: [{name: plain, collection: plain, on: {E: {delete: true}}}]"+shopViews)
	view := pipelineStatus{}
	for _, p := range projections {
		definition := catalog.Definition{Text: p.Definition()}
		for _, e := range []*catalog.Entry{{Live: &catalog.Live{Definition: definition}}, {Building: &catalog.Build{Definition: definition}}} {
			e.Name = p.Name()
			shown := viewProjection(e, false)
			if want := map[string][]string{"customerOrders": {"Customer", "Order"}, "productSales": {"Order"}}[p.Name()]; !slices.Equal(shown.ViewOf, want) {
				t.Errorf("%s is a view of %v, want %v", p.Name(), shown.ViewOf, want)
			}
			view.Projections = append(view.Projections, projectionStatus{projectionView: shown})
		}
	}
	var out bytes.Buffer
	if err := printLines(&out, "status", func(p printer) { p.status(statusView{Pipelines: []pipelineStatus{view}}, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "  view customerOrders: ") || !strings.Contains(out.String(), "  projection plain: ") {
		t.Errorf("printed\n%s", &out)
	}
	out.Reset()
	if err := cli.Show(&out, cli.Output{}, view.Projections[2].projectionView, projectionFields(view.Projections[2].projectionView)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "view of") || !strings.Contains(out.String(), "Customer, Order") {
		t.Errorf("printed\n%s", &out)
	}
}
