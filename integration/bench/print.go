package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Formats of a report.
const (
	formatTable = "table"
	formatGo    = "go"
)

// Write writes the report in a format.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case formatTable:
		_, err := io.WriteString(w, r.table())
		return err
	case formatGo:
		_, err := io.WriteString(w, r.benchmarks())
		return err
	}
	return fmt.Errorf("unknown format %q; known are %s and %s", format, formatTable, formatGo)
}

// quietLoad is the highest load average of a quiet machine.
const quietLoad = 0.5

var header = []string{"measurement", "median", "least to most", "limit in the same run", "its median", "share", "process", "CPU per event", "allocations per event", "peak memory"}

// table returns the report as a Markdown table with aligned columns.
func (r *Report) table() string {
	h := r.Host
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %s, %s, commit %s, %s. Added latency: %s. Rounds: %d. Load average before: %s.\n\n",
		h.CPU, h.Cores, h.System, h.Go, h.Commit, h.Time, h.Latency, h.Rounds, h.LoadBefore)
	if load, err := strconv.ParseFloat(h.LoadBefore, 64); err == nil && load > quietLoad {
		b.WriteString("**The machine was busy with other work** (the load average says how busy). Rates are below, and latencies far above, what it can do when it is quiet. CPU and allocations for each event, memory, and the shares depend on it less.\n\n")
	}
	lines := [][]string{header, make([]string, len(header))}
	for _, row := range r.Rows {
		lines = append(lines, row.lines()...)
	}
	widths := make([]int, len(header))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for i, line := range lines {
		for column, cell := range line {
			fill := " "
			if i == 1 {
				fill = "-"
			}
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(fill, widths[column]-len([]rune(cell))))
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// failureEnd bounds the text of a failure in the table.
const failureEnd = 160

// lines returns the row's lines of the table.
func (r *Row) lines() [][]string {
	if len(r.Figures) == 0 {
		line := make([]string, len(header))
		line[0], line[1] = r.Title, "not measured"
		if len(r.Failures) > 0 {
			reason, _, _ := strings.Cut(r.Failures[0], "\n")
			line[3] = strings.ReplaceAll(reason[:min(len(reason), failureEnd)], "|", "/")
		}
		return [][]string{line}
	}
	lines := make([][]string, max(len(r.Figures), len(r.Limits), len(r.Costs)))
	for i := range lines {
		line := make([]string, len(header))
		if i == 0 {
			line[0] = r.Title
		}
		if i < len(r.Figures) {
			f := r.Figures[i]
			if i > 0 && f.Name != "" {
				line[0] = "– " + f.Name
			} else if f.Name != "" {
				line[0] += ", " + f.Name
			}
			line[1], line[2] = number(median(f.Rounds))+" "+f.Unit, spread(f.Rounds)
		}
		if i < len(r.Limits) {
			l := r.Limits[i]
			line[3], line[4] = l.Name, number(median(l.Rounds))+" "+l.Unit
			if len(l.CPU) > 0 {
				line[4] += fmt.Sprintf(", %s µs, %s allocations", number(median(l.CPU)), number(median(l.Allocs)))
			}
			line[5] = fmt.Sprintf("%.2f", median(l.Ratios))
		}
		if i < len(r.Costs) {
			c := r.Costs[i]
			line[6], line[7], line[8], line[9] = c.Service, number(median(c.CPU))+" µs", number(median(c.Allocs)), number(median(c.Peak))+" MiB"
		}
		lines[i] = line
	}
	return lines
}

func spread(values []float64) string {
	return number(slices.Min(values)) + " to " + number(slices.Max(values))
}

// number formats a number with three significant digits, or with all digits before the
// point.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 100:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func thousands(digits string) string {
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// benchmarks returns the report in Go's benchmark format, one line for each round, for
// benchstat.
func (r *Report) benchmarks() string {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ncpu: %s\ncommit: %s\n", strings.ReplaceAll(r.Host.System, "/", "\ngoarch: "), r.Host.CPU, r.Host.Commit)
	for _, row := range r.Rows {
		if len(row.Figures) == 0 {
			continue
		}
		for round := range row.Figures[0].Rounds {
			fmt.Fprintf(&b, "Benchmark%s 1", benchmarkName(row.Name))
			for _, f := range row.Figures {
				fmt.Fprintf(&b, " %g %s", f.Rounds[round], unitName(f.Name, f.Unit))
			}
			for _, c := range row.Costs {
				fmt.Fprintf(&b, " %g %s %g %s %g %s", c.CPU[round], unitName(c.Service, "cpu-µs/event"),
					c.Allocs[round], unitName(c.Service, "allocs/event"), c.Peak[round], unitName(c.Service, "peak-MiB"))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// benchmarkName returns a row's name as the name of a benchmark.
func benchmarkName(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// unitName returns the unit of a figure without spaces, which the format does not allow.
func unitName(name, unit string) string {
	if name != "" {
		unit = name + "-" + unit
	}
	return strings.NewReplacer(" ", "-", ",", "").Replace(unit)
}
