// Metricspage prints docs/metrics.md: every metric of both services with its type, its
// labels and its help, as they register them.
//
//	go run ./integration/cmd/metricspage >docs/metrics.md
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

func main() {
	found, err := declared(context.Background())
	if err == nil {
		err = write(os.Stdout, found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "metricspage:", err)
		os.Exit(1)
	}
}

const head = `# Metrics

Both services answer ` + "`/metrics`" + ` on their admin port (` + "`PENSTOCK_ADMIN_ADDRESS`" + `). This page is made from the code by ` + "`make metrics-page`" + `. The metrics of the Go runtime and of the process (` + "`go_*`, `process_*`" + `) come in addition. The alerts of the chart, and what to do about each, are in its [runbook](../charts/penstock/RUNBOOK.md).
`

// services are in the order of the page.
var services = []virtual.Kind{virtual.Publisher, virtual.Projector}

// write writes the page of the metrics of both services.
func write(w io.Writer, found map[virtual.Kind][]metric) error {
	var b strings.Builder
	b.WriteString(head)
	for _, service := range services {
		fmt.Fprintf(&b, "\n## %s%s\n\n| metric | type | labels | |\n|---|---|---|---|\n", strings.ToUpper(string(service[:1])), service[1:])
		for _, m := range found[service] {
			labels := ""
			if len(m.labels) > 0 {
				labels = "`" + strings.Join(m.labels, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, strings.ReplaceAll(m.help, "|", `\|`))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
