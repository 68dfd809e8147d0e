//go:build linux

package cluster_test

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// row is a line of the table: the event, the restarts of the release's containers, the
// duration, and a note.
type row struct {
	what     string
	restarts int
	took     time.Duration
	note     string
}

// table collects the results of the tests. It is safe for concurrent use.
type table struct {
	mu   sync.Mutex
	rows []row
}

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

// String returns the table as Markdown; empty if there are no results.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprintln(w, "\twhat\trestarts\ttime to recover\tseen\t")
	fmt.Fprintln(w, "\t---\t---\t---\t---\t")
	for _, r := range t.rows {
		fmt.Fprintf(w, "\t%s\t%d\t%.1f s\t%s\t\n", r.what, r.restarts, r.took.Seconds(), r.note)
	}
	_ = w.Flush()
	return out.String()
}
