package kube_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// timing is the configuration of a lease.
type timing struct {
	duration, deadline, period time.Duration
}

var (
	// defaults are the publisher's defaults.
	defaults = timing{duration: 15 * time.Second, deadline: 10 * time.Second, period: 2 * time.Second}
	// short is for tests that wait until a lease expires.
	short = timing{duration: 6 * time.Second, deadline: 4 * time.Second, period: time.Second}
	// medium is for tests in which no lease may expire.
	medium = timing{duration: 30 * time.Second, deadline: 20 * time.Second, period: 2 * time.Second}
	// patient survives a restart of the API server even on a slow machine.
	patient = timing{duration: 150 * time.Second, deadline: 120 * time.Second, period: 2 * time.Second}
)

func (l timing) String() string {
	return fmt.Sprintf("%v/%v/%v", l.duration, l.deadline, l.period)
}

// name returns a name for a test.
func (l timing) name() string { return strings.ReplaceAll(l.String(), "/", "-") }

// env returns the publisher's variables.
func (l timing) env() []string {
	return []string{
		"PENSTOCK_LEASE_DURATION=" + l.duration.String(),
		"PENSTOCK_LEASE_RENEW_DEADLINE=" + l.deadline.String(),
		"PENSTOCK_LEASE_RETRY_PERIOD=" + l.period.String(),
	}
}

// crashMean and crashMax bound the time of a takeover after a crash.
func (l timing) crashMean() time.Duration { return l.duration + l.period }
func (l timing) crashMax() time.Duration  { return l.duration + 3*l.period }

// handoverMean and handoverMax bound the time of a takeover after a clean stop, for any
// lease.
const handoverMean, handoverMax = time.Second, 4 * time.Second

// results has the measured takeovers. It is safe for concurrent use.
type results struct {
	mu   sync.Mutex
	rows []*row
}

// row is one line of the table.
type row struct {
	fault string
	lease timing

	mu   sync.Mutex
	took []time.Duration
	late int
}

// of returns the row of a fault. It makes the row if there is none.
func (r *results) of(fault string, lease timing) *row {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.rows {
		if known.fault == fault && known.lease == lease {
			return known
		}
	}
	added := &row{fault: fault, lease: lease}
	r.rows = append(r.rows, added)
	return added
}

// add records one takeover.
func (r *row) add(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, took)
}

// addLate records late messages.
func (r *row) addLate(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late += n
}

// bounds returns the shortest, the mean and the longest takeover, 0 without any.
func (r *row) bounds() (shortest, mean, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.took) == 0 {
		return 0, 0, 0
	}
	var sum time.Duration
	for _, took := range r.took {
		sum += took
	}
	return slices.Min(r.took), sum / time.Duration(len(r.took)), slices.Max(r.took)
}

// print prints the table.
func (r *results) print(to io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "fault\tlease/renew/retry\truns\tmin s\tmean s\tmax s\tlate messages\t")
	for _, row := range r.rows {
		if len(row.took) == 0 {
			fmt.Fprintf(table, "%s\t%v\t0\t-\t-\t-\t%d\t\n", row.fault, row.lease, row.late)
			continue
		}
		shortest, mean, longest := row.bounds()
		fmt.Fprintf(table, "%s\t%v\t%d\t%.2f\t%.2f\t%.2f\t%d\t\n", row.fault, row.lease, len(row.took),
			shortest.Seconds(), mean.Seconds(), longest.Seconds(), row.late)
	}
	fmt.Fprintln(to, "\nfrom the fault to the successor's first accepted event:")
	_ = table.Flush()
}
