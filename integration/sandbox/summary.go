package sandbox

import (
	"fmt"
	"io"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// Print writes the outcome as a table, followed by the problems.
func (r *Result) Print(out io.Writer) {
	rate := 0.0
	if r.Took > 0 {
		rate = float64(r.Projected) / r.Took.Seconds()
	}
	cell := lipgloss.NewStyle().Padding(0, 1)
	rows := [][]string{
		{"events", fmt.Sprint(r.Report.Events)},
		{"aggregates", fmt.Sprint(r.Report.Aggregates)},
		{"read models right", fmt.Sprintf("%d of %d", r.Report.Right, r.Report.Expected)},
		{"duplicates met", fmt.Sprintf("%d dropped by the broker, %d by the projectors", r.Status.DuplicatesDropped, r.Status.DuplicatesMet)},
		{"failover", fmt.Sprintf("%s from SIGKILL to the successor's first event", r.Failover.Round(time.Millisecond))},
		{"throughput", fmt.Sprintf("%.0f events/s over %s", rate, r.Took.Round(100*time.Millisecond))},
		{"insert to read model", fmt.Sprintf("p50 %s  p99 %s (the failover included)", r.P50.Round(time.Millisecond), r.P99.Round(time.Millisecond))},
	}
	if r.Rebuild != nil {
		rows = append(rows, r.Rebuild.rows()...)
	}
	summary := table.New().StyleFunc(func(int, int) lipgloss.Style { return cell }).Rows(rows...)
	fmt.Fprintf(out, "\n%s\n", summary.Render())
	if r.Rebuild != nil && r.Rebuild.Reads.Finding != "" {
		fmt.Fprintf(out, "wrong: %s\n", r.Rebuild.Reads.Finding)
	}
	for _, finding := range r.Report.Findings {
		fmt.Fprintf(out, "wrong: %s\n", finding)
	}
	if more := r.Report.Wrong() - len(r.Report.Findings); more > 0 {
		fmt.Fprintf(out, "wrong: and %d more\n", more)
	}
}

// rows returns the lines of the second act.
func (r *RebuildResult) rows() [][]string {
	found := fmt.Sprintf("%d findings, %d after --repair", len(r.Found), len(r.Left))
	if r.Falsified != "" && r.exact() {
		found = fmt.Sprintf("found %s, which was falsified, and nothing else; %d findings after --repair", r.Falsified, len(r.Left))
	}
	return [][]string{
		{"rebuild of " + r.Projection, fmt.Sprintf("%s from the new file to generation %d live", r.Took.Round(100*time.Millisecond), r.Generation)},
		{"reads during it", fmt.Sprintf("%d of the whole collection: %d empty, %d mixed", r.Reads.Total, r.Reads.Empty, r.Reads.Mixed)},
		{"insert to read model", fmt.Sprintf("p50 %s  p99 %s (the rebuild included)", r.P50.Round(time.Millisecond), r.P99.Round(time.Millisecond))},
		{"projector verify", found},
	}
}

// OK reports whether every event is stored and projected, every read model is right, and
// the second act succeeded.
func (r *Result) OK() bool {
	return (r.Rebuild == nil || r.Rebuild.OK()) && r.Report.OK() && r.Report.Events == r.Status.Total && r.Status.Projected == r.Status.Total
}
