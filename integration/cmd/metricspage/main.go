// Metricspage prints docs/metrics.md: every metric of both services with its type, its
// labels and its help, as the code declares them.
//
//	go run ./integration/cmd/metricspage >docs/metrics.md
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := write(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "metricspage:", err)
		os.Exit(1)
	}
}

const head = `# Metrics

Both services answer ` + "`/metrics`" + ` on their admin port (` + "`PENSTOCK_ADMIN_ADDRESS`" + `). This page is made from the code by ` + "`make metrics-page`" + `. The metrics of the Go runtime and of the process (` + "`go_*`, `process_*`" + `) come in addition. The alerts of the chart, and what to do about each, are in its [runbook](../charts/penstock/RUNBOOK.md).
`

// write writes the page for the services below the folder root.
func write(w io.Writer, root string) error {
	var b strings.Builder
	b.WriteString(head)
	for _, service := range []string{"publisher", "projector"} {
		found, err := declared(root, service)
		if err != nil {
			return fmt.Errorf("read the metrics of %s: %w", service, err)
		}
		if len(found) == 0 {
			return fmt.Errorf("no metric of %s was found below %s: run it in the repository's folder", service, root)
		}
		slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
		fmt.Fprintf(&b, "\n## %s%s\n\n| metric | type | labels | |\n|---|---|---|---|\n", strings.ToUpper(service[:1]), service[1:])
		for _, m := range found {
			labels := ""
			if len(m.labels) > 0 {
				labels = "`" + strings.Join(m.labels, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, strings.ReplaceAll(m.help, "|", `\|`))
		}
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// metric is a metric as the code declares it.
type metric struct {
	name, kind, help string
	labels           []string
}
