// Package obstest reads metrics, for tests.
package obstest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Value is the value of a gauge or a counter. label is the value of its label, and empty if it
// has none.
func Value(tb testing.TB, metrics prometheus.Gatherer, name, label string) float64 {
	tb.Helper()
	families, err := metrics.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	tb.Fatalf("no metric %s %s", name, label)
	return 0
}
