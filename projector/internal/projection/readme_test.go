package projection_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// exampleOf compiles the first YAML block with projections in a page.
func exampleOf(t *testing.T, page string) *projection.Projection {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(?:#[^\n]*\n)?(projections:.*?)^```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no example of projections", page)
	}
	return projectiontest.One(t, string(block[1]))
}

// TestReadmeExample runs the example of the README with events as in real stores: an
// order whose first event is its cancellation, and prices of several number types.
func TestReadmeExample(t *testing.T) {
	t.Parallel()
	p := exampleOf(t, "../../../README.md")
	order := func(id int64, eventType, payload string) *event.Event {
		ev := projectiontest.Event(id, eventType, payload)
		ev.AggregateType = "Order"
		return ev
	}
	item := func(id int64, price string) *event.Event {
		return order(id, "ItemAddedToOrderEvent", `{"sku":"s","quantity":2,"priceCents":`+price+`}`)
	}
	tests := []struct {
		name   string
		events []*event.Event
		want   string
	}{
		{"cancelled before anything else", []*event.Event{order(1, "OrderCancelledEvent", `{}`)}, "nil"},
		{"cancelled", []*event.Event{order(1, "OrderPlacedEvent", `{"userId":"u"}`), order(2, "OrderCancelledEvent", `{}`)}, "nil"},
		{"item before the order", []*event.Event{item(1, `10`)}, `{"items":2,"totalCents":20,"lines":[{"quantity":2,"sku":"s"}]}`},
		{"fractions", []*event.Event{item(1, `10.5`)}, `{"items":2,"totalCents":21.0,"lines":[{"quantity":2,"sku":"s"}]}`},
		{"fractions after integers", []*event.Event{item(1, `10`), item(2, `10.5`), item(3, `{"$numberLong":"10"}`)}, `{"items":6,"totalCents":61.0,"lines":[{"quantity":2,"sku":"s"},{"quantity":2,"sku":"s"},{"quantity":2,"sku":"s"}]}`},
		{"decimals", []*event.Event{item(1, `10`), item(2, `{"$numberDecimal":"10.10"}`)}, `{"items":4,"totalCents":{"$numberDecimal":"40.20"},"lines":[{"quantity":2,"sku":"s"},{"quantity":2,"sku":"s"}]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := p.Fold(nil, test.events)
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			want := test.want
			if want != "nil" {
				want = projectiontest.JSON(t, testkit.FromJSON(want))
			}
			if got := projectiontest.JSON(t, f.State()); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// inlineHandler matches a handler in the text of a page.
var inlineHandler = regexp.MustCompile("`((?:when|set|unset|inc|push|pull|addToSet|min|max|delete): [^`]*)`")

// TestHandlersInTheDocsCompile checks that the handlers that the pages show within their
// text are valid YAML and CEL.
func TestHandlersInTheDocsCompile(t *testing.T) {
	t.Parallel()
	for page, atLeast := range map[string]int{"../../../docs/projections.md": 3, "../../../docs/cookbook.md": 0, "../../../README.md": 0} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := inlineHandler.FindAllSubmatch(text, -1)
		if len(found) < atLeast {
			t.Errorf("%s has %d handlers", page, len(found))
		}
		for _, m := range found {
			if _, err := projection.Parse(page, append([]byte("projections:\n  - name: p\n    collection: c\n    on:\n      E:\n        "), m[1]...)); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
		}
	}
}

// TestReasonsAreThoseOfTheTables compares the tables of reasons with the code: every reason is in
// docs/projections.md and in the runbook, and the remedy is what the code does.
func TestReasonsAreThoseOfTheTables(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"../../../docs/projections.md", "../../../charts/penstock/RUNBOOK.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), "| reason | what happened |")
		if strings.HasSuffix(page, "RUNBOOK.md") {
			_, section, _ = strings.Cut(string(text), "| `reason` | look at |")
		}
		// The paragraph below the table has the reasons with alerts of their own.
		section, _, _ = strings.Cut(section, "\n\nTo resume")
		section, _, _ = strings.Cut(section, "\n\nCorrect the projection")
		for _, reason := range projection.Reasons() {
			var remedy string
			for line := range strings.Lines(section) {
				names := line
				if cells := strings.Split(line, "|"); len(cells) > 2 {
					names = cells[1]
				}
				if strings.Contains(names, "`"+string(reason)+"`") {
					remedy = line
				}
			}
			if remedy == "" {
				t.Errorf("%s lacks the reason %s", page, reason)
			} else if resumes := strings.Contains(remedy, "resume"); resumes != reason.Resumes() {
				t.Errorf("%s: says that %s resumes by itself: %t, and the code: %t", page, reason, resumes, reason.Resumes())
			} else if discard := strings.Contains(remedy, "discard"); discard != reason.Seldom() {
				t.Errorf("%s: discards %s: %t, and the code retries it seldom: %t", page, reason, discard, reason.Seldom())
			}
		}
	}
}
