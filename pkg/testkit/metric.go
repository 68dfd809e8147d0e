package testkit

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is the value of a gauge or a counter. labels are the values of its labels, in the order
// of their names.
func Metric(tb testing.TB, metrics prometheus.Gatherer, name string, labels ...string) float64 {
	tb.Helper()
	value, found := FindMetric(tb, metrics, name, labels...)
	if !found {
		tb.Fatalf("no metric %s %s", name, labels)
	}
	return value
}

// FindMetric is [Metric] for a metric that may be absent.
func FindMetric(tb testing.TB, metrics prometheus.Gatherer, name string, labels ...string) (value float64, found bool) {
	tb.Helper()
	families, err := metrics.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}
