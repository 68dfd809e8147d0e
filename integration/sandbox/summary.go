package sandbox

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Print writes the outcome as a table, followed by the problems.
func (r *Result) Print(out io.Writer) {
	rate := 0.0
	if r.Took > 0 {
		rate = float64(r.Projected) / r.Took.Seconds()
	}
	rows := [][]string{
		{"events", fmt.Sprint(r.Report.Events)},
		{"aggregates", fmt.Sprint(r.Report.Aggregates)},
		{"read models right", fmt.Sprintf("%d of %d", r.Report.Right, r.Report.Expected)},
		{"duplicates met", fmt.Sprintf("%d dropped by the broker, %d by the projectors", r.Status.DuplicatesDropped, r.Status.DuplicatesMet)},
		{"failover", fmt.Sprintf("%s from SIGKILL to the successor's first event", r.Failover.Round(time.Millisecond))},
		{"throughput", fmt.Sprintf("%.0f events/s over %s", rate, r.Took.Round(100*time.Millisecond))},
		{"insert to read model", fmt.Sprintf("p50 %s  p99 %s (the failover included)", r.P50.Round(time.Millisecond), r.P99.Round(time.Millisecond))},
	}
	for i := range r.Rebuilds {
		rows = append(rows, r.Rebuilds[i].rows()...)
	}
	if len(r.Rebuilds) > 0 {
		rows = append(rows, []string{"insert to read model", fmt.Sprintf("p50 %s  p99 %s (the rebuilds included)", r.RebuildP50.Round(time.Millisecond), r.RebuildP99.Round(time.Millisecond))})
	}
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	fmt.Fprintln(out)
	for _, row := range rows {
		fmt.Fprintf(out, "%-*s  %s\n", width, row[0], row[1])
	}
	if e := r.Erasure; e != nil {
		fmt.Fprintf(out, "\nprojector erase --aggregate %s …\n%s\n", e.Person, strings.TrimSpace(e.Printed))
	}
	for _, problem := range r.Problems() {
		fmt.Fprintf(out, "wrong: %s\n", problem)
	}
	if r.OK() && len(r.Rebuilds) > 0 && r.Erasure != nil {
		fmt.Fprintf(out, "\nA leader died, %d read models were rebuilt, a person was erased: nothing was lost or wrong.\n"+
			"Next: your own read model, with docs/tutorial.md and make demo STAY=yes, which keeps the pipeline up.\n", len(r.Rebuilds))
	}
}

// rows returns the lines of the second act for the projection.
func (r *RebuildResult) rows() [][]string {
	found := fmt.Sprintf("%d findings, %d after --repair", len(r.Found), len(r.Left))
	if r.Falsified != "" && r.exact() {
		found = fmt.Sprintf("found %s, which was falsified, and nothing else; %d findings after --repair", r.Falsified, len(r.Left))
	}
	return [][]string{
		{"rebuild of " + r.Projection, fmt.Sprintf("%s from the new file to generation %d live", r.Took.Round(100*time.Millisecond), r.Generation)},
		{"reads during it", fmt.Sprintf("%d of the whole collection: %d empty, %d mixed", r.Reads.Total, r.Reads.Empty, r.Reads.Mixed)},
		{"projector verify", found},
	}
}

// OK reports whether every event is stored and projected, every read model is right, and
// the second act succeeded.
func (r *Result) OK() bool { return len(r.Problems()) == 0 }

// Problems returns one sentence for each reason why the run is not OK.
func (r *Result) Problems() []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if stored, total := r.Report.Events, r.Status.Total; stored != total {
		add("the event store has %d of %d events", stored, total)
	}
	if shown, total := r.Status.Projected, r.Status.Total; shown != total {
		add("the demo has seen %d of %d events reach their read models", shown, total)
	}
	for i := range r.Rebuilds {
		problems = append(problems, r.Rebuilds[i].problems()...)
	}
	if e := r.Erasure; e != nil && e.Status != 0 {
		add("projector erase ended with status %d", e.Status)
	}
	problems = append(problems, r.Report.Findings...)
	if more := r.Report.Wrong() - len(r.Report.Findings); more > 0 {
		add("%d more read models are wrong", more)
	}
	if !r.Report.OK() && r.Report.Wrong() == 0 {
		add("%d of %d read models are right", r.Report.Right, r.Report.Expected)
	}
	return problems
}
