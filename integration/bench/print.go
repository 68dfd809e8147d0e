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
	if len(r.readings) == 0 {
		line := make([]string, len(header))
		line[0], line[1] = r.Title, "not measured"
		if len(r.Failures) > 0 {
			reason, _, _ := strings.Cut(r.Failures[0], "\n")
			line[3] = strings.ReplaceAll(reason[:min(len(reason), failureEnd)], "|", "/")
		}
		return [][]string{line}
	}
	mid := func(of func(one *reading) float64) string { return number(median(r.values(of))) }
	first := &r.readings[0]
	lines := make([][]string, max(len(first.figures), len(first.limits), len(first.costs)))
	for i := range lines {
		line := make([]string, len(header))
		if i == 0 {
			line[0] = r.Title
		}
		if i < len(first.figures) {
			f := first.figures[i]
			if i > 0 && f.name != "" {
				line[0] = "– " + f.name
			} else if f.name != "" {
				line[0] += ", " + f.name
			}
			value := func(one *reading) float64 { return one.figures[i].value }
			line[1], line[2] = mid(value)+" "+f.unit, spread(r.values(value))
		}
		if i < len(first.limits) {
			l := first.limits[i]
			line[3], line[4] = l.name, mid(func(one *reading) float64 { return one.limits[i].value })+" "+l.unit
			if l.cpu > 0 {
				line[4] += fmt.Sprintf(", %s µs, %s allocations", mid(func(one *reading) float64 { return one.limits[i].cpu }),
					mid(func(one *reading) float64 { return one.limits[i].allocs }))
			}
			line[5] = fmt.Sprintf("%.2f", median(r.values(func(one *reading) float64 { return one.figures[0].value / one.limits[i].value })))
		}
		if i < len(first.costs) {
			line[6] = first.costs[i].service
			line[7] = mid(func(one *reading) float64 { return one.costs[i].cpu }) + " µs"
			line[8] = mid(func(one *reading) float64 { return one.costs[i].allocs })
			line[9] = mid(func(one *reading) float64 { return one.costs[i].peak }) + " MiB"
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
		for _, one := range row.readings {
			fmt.Fprintf(&b, "Benchmark%s 1", benchmarkName(row.Name))
			for _, f := range one.figures {
				fmt.Fprintf(&b, " %g %s", f.value, unitName(f.name, f.unit))
			}
			for _, c := range one.costs {
				fmt.Fprintf(&b, " %g %s %g %s %g %s", c.cpu, unitName(c.service, "cpu-µs/event"),
					c.allocs, unitName(c.service, "allocs/event"), c.peak, unitName(c.service, "peak-MiB"))
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
