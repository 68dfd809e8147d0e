package operate

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// One bad event is one line of the parked list and of the status, in however many read models it
// has parked its aggregate.
func TestOneBadEventIsOneLine(t *testing.T) {
	t.Parallel()
	now := time.Now()
	marker := func(of, aggregate string, event int64, problem string) park.Listed {
		return park.Listed{Key: park.Key{Projection: of, AggregateID: aggregate, Generation: 1}, Reason: "expression", EventID: event, Head: 9, ParkedAt: now, Error: problem}
	}
	found := []park.Listed{marker("books", "b-1", 4, "no such key: title"), marker("loans", "b-2", 4, "no"), marker("loans", "b-1", 4, "no such key: title"), marker("fines", "b-1", 4, "no such key: due"), marker("books", "b-1", 5, "no")}
	var out bytes.Buffer
	if err := cli.List(&out, cli.Output{}, byEvent(found), together(parkedColumns(now, nil))); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "books, loans, fines  b-1        expression  4 ") || !strings.HasSuffix(lines[1], "  no such key: title, no such key: due") {
		t.Errorf("the list is\n%s", &out)
	}
	out.Reset()
	counts := []parkedStatus{{"books", 1, "expression", false, 2}, {"books", 1, "expression", true, 3}, {"loans", 2, "expression", false, 1}}
	if err := printLines(&out, "status", func(p printer) { p.status(statusView{Pipelines: []pipelineStatus{{}}, Parked: counts}, now) }); err != nil {
		t.Fatal(err)
	}
	if want := "discarded, expression: 3 aggregates in books (generation 1)\nparked, expression: 2 aggregates in books (generation 1), 1 aggregate in loans (generation 2)\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the status is\n%s\nwant\n%s", &out, want)
	}
}
