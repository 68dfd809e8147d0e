package sandbox

import (
	"fmt"
	"io"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// Print writes the outcome as a table, then what is wrong, if anything.
func (r *Result) Print(out io.Writer) {
	rate := 0.0
	if r.Took > 0 {
		rate = float64(r.Status.Projected) / r.Took.Seconds()
	}
	cell := lipgloss.NewStyle().Padding(0, 1)
	summary := table.New().StyleFunc(func(int, int) lipgloss.Style { return cell }).Rows(
		[]string{"events", fmt.Sprint(r.Report.Events)},
		[]string{"aggregates", fmt.Sprint(r.Report.Aggregates)},
		[]string{"read models right", fmt.Sprintf("%d of %d", r.Report.Right, r.Report.Expected)},
		[]string{"duplicates met", fmt.Sprintf("%d dropped by the broker, %d by the projectors", r.Status.DuplicatesDropped, r.Status.DuplicatesMet)},
		[]string{"failover", fmt.Sprintf("%s from SIGKILL to the successor's first event", r.Failover.Round(time.Millisecond))},
		[]string{"throughput", fmt.Sprintf("%.0f events/s over %s", rate, r.Took.Round(100*time.Millisecond))},
		[]string{"insert to read model", fmt.Sprintf("p50 %s  p99 %s (the failover included)", r.P50.Round(time.Millisecond), r.P99.Round(time.Millisecond))},
	)
	fmt.Fprintf(out, "\n%s\n", summary.Render())
	for _, finding := range r.Report.Findings {
		fmt.Fprintf(out, "wrong: %s\n", finding)
	}
	if more := r.Report.Wrong() - len(r.Report.Findings); more > 0 {
		fmt.Fprintf(out, "wrong: and %d more\n", more)
	}
}

// OK says that every event is stored and shown, and that every read model is right.
func (r *Result) OK() bool {
	return r.Report.OK() && r.Report.Events == r.Status.Total && r.Status.Projected == r.Status.Total
}
