package bench

import (
	"fmt"
	"math"
	"strings"
)

// short has the rows of the short table, with their titles and limits there.
var short = []struct {
	row, title string
	limits     []shortLimit
}{
	{"publisher/steady", "publisher, from the change stream to acknowledged messages", []shortLimit{
		{titleSend, "bare Azure SDK, ready-made messages"}, {titleBoth, "with bare reading on the same cores"},
	}},
	{"publisher/catch-up-1000000", "publisher, catching up 1,000,000 stored events", []shortLimit{
		{titleSend, "bare Azure SDK, ready-made messages"}, {titleBoth, "with bare reading on the same cores"},
	}},
	{"projector/aggregates", "projector, a session for each aggregate of about 4 events", []shortLimit{
		{titleAcceptSDK, "accepting the sessions alone, by the Azure SDK"}, {titleAcceptAMQP, "by go-amqp"},
	}},
	{"projector/buckets", "projector, 64 buckets", []shortLimit{{titleReceive, "bare Azure SDK, receive and complete"}}},
	{"latency/at-25", "insert to read model at 25 % of the capacity, p50", []shortLimit{
		{titleHops, "bare hops, one after the other"}, {titleHopsAccepted, "bare hops that overlap, in a new session"},
	}},
	{"latency/at-50", "the same at 50 %", []shortLimit{{titleHops, "bare hops, one after the other"}, {titleHopsAccepted, "that overlap, in a new session"}}},
}

// shortLimit is a limit of the short table. name is the beginning of the limit's name.
type shortLimit struct{ name, title string }

// short returns the short table: the main rows, for readers who do not know the benchmark.
func (r *Report) short() string {
	var b strings.Builder
	b.WriteString("| | Penstock | peak memory | limits in the same run | share |\n|---|---|---|---|---|\n")
	for _, line := range short {
		for i := range r.Rows {
			row := &r.Rows[i]
			if row.Name != line.row || len(row.Figures) == 0 {
				continue
			}
			var limits, shares []string
			for _, want := range line.limits {
				for _, l := range row.Limits {
					if strings.HasPrefix(l.Name, want.name) {
						limits = append(limits, fmt.Sprintf("%s: %s", want.title, rounded(median(l.Rounds), l.Unit)))
						shares = append(shares, fmt.Sprintf("%.2f", median(l.Ratios)))
					}
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", line.title, row.headline(), row.peak(),
				strings.Join(limits, "; "), strings.Join(shares, "; "))
		}
	}
	h := r.Host
	fmt.Fprintf(&b, "\n%s, %d cores, %s, commit %s, %s, %s, load average before: %s.\n",
		h.CPU, h.Cores, h.Go, h.Commit, h.Time, plural(h.Rounds, "round", "rounds"), h.LoadBefore)
	return b.String()
}

// headline returns the row's first figure. A p50 also gets its p99.
func (r *Row) headline() string {
	f := r.Figures[0]
	text := rounded(median(f.Rounds), f.Unit)
	for _, more := range r.Figures[1:] {
		if more.Name == "p99" {
			text += ", p99 " + rounded(median(more.Rounds), more.Unit)
		}
	}
	return text
}

// peak returns the largest memory of each service, in the order of the table.
func (r *Row) peak() string {
	var peaks []string
	for _, c := range r.Costs {
		text := rounded(median(c.Peak), "MiB")
		if len(r.Costs) > 1 {
			text = c.Service + " " + text
		}
		peaks = append(peaks, text)
	}
	return strings.Join(peaks, ", ")
}

// rounded formats a number with three significant digits and its unit.
func rounded(v float64, unit string) string {
	step := 1.0
	for v >= 1000*step {
		step *= 10
	}
	if v >= 1000 {
		v = math.Round(v/step) * step
	}
	return number(v) + " " + unit
}
