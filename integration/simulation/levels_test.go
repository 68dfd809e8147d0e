package simulation

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRaisedLevelsAreFound(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	events := prometheus.NewGauge(prometheus.GaugeOpts{Name: "inflight_events", Help: "Events."})
	registry.MustRegister(events)
	for _, test := range []struct {
		value  float64
		name   string
		raised int
	}{{0, "inflight_events", 0}, {3, "inflight_events", 1}, {0, "renamed", 1}} {
		events.Set(test.value)
		if findings := raised(registry, []string{test.name}); len(findings) != test.raised {
			t.Errorf("%s at %v: %v", test.name, test.value, findings)
		}
	}
}
