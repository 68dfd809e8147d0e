package e2e_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `(penstock_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\|")
	metricLabel = regexp.MustCompile("`([a-z_]+)`")
)

// TestMetricsPageAgreesWithAScrape compares the names, types and labels that the services export with
// docs/metrics.md. charts/verify.sh compares alerts, dashboards, runbook and docs with that page.
func TestMetricsPageAgreesWithAScrape(t *testing.T) { scene(t, metricsPageAgreesWithAScrape) }

func metricsPageAgreesWithAScrape(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		labels := []string{}
		for _, label := range metricLabel.FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, label[1])
		}
		slices.Sort(labels)
		documented[row[1]] = row[2] + " " + strings.Join(labels, " ")
	}
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	s.insert(counted("a", 1, one))
	s.await("an event in the read model", func() bool { return s.count("a") == "n=1 after event 1" })
	seen := 0
	for _, process := range s.Running() {
		for name, family := range s.scrape(process) {
			if !strings.HasPrefix(name, "penstock_") {
				continue
			}
			seen++
			for _, metric := range family.GetMetric() {
				labels := []string{}
				for _, pair := range metric.GetLabel() {
					labels = append(labels, pair.GetName())
				}
				slices.Sort(labels)
				if got := strings.ToLower(family.GetType().String()) + " " + strings.Join(labels, " "); got != documented[name] {
					t.Errorf("%s is exported as %q, and docs/metrics.md has %q", name, got, documented[name])
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("the scrapes have %d metrics: too few to compare", seen)
	}
}
