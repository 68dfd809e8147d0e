package simulation

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

// levels are metrics of each service that are 0 when it has nothing to do: what it holds in
// memory for events, requests and failures. Goroutines that outlive their process need no metric,
// because no bubble ends before all of its goroutines.
var levels = map[virtual.Kind][]string{
	virtual.Publisher: {
		"penstock_publisher_checkpoint_window_events", "penstock_publisher_delayed_keys", "penstock_publisher_inflight_bytes",
		"penstock_publisher_inflight_events",
	},
	virtual.Projector: {"penstock_projector_sessions_waiting"},
}

// checkLevels finds the processes that do not run, or hold something although they have
// nothing to do. It asks until they hold nothing. Later, a new term can send events again,
// because an operator has moved the checkpoint back.
func checkLevels(_ context.Context, o *outcome) ([]string, error) {
	if o.idle {
		return nil, nil
	}
	var findings []string
	for _, p := range o.world.processes() {
		running := p.runs()
		if running == nil {
			findings = append(findings, fmt.Sprintf("%s-%d does not run", p.kind, p.number))
			continue
		}
		for _, finding := range raised(running.Registry(), levels[p.kind]) {
			findings = append(findings, running.Name+" "+finding)
		}
	}
	return findings, nil
}

// raised describes the metrics among names that are not 0. A process that is starting does not
// have them yet.
func raised(from prometheus.Gatherer, names []string) []string {
	families, err := from.Gather()
	if err != nil {
		return []string{fmt.Sprintf("does not tell its metrics: %v", err)}
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()] += m.GetGauge().GetValue()
		}
	}
	var findings []string
	for _, name := range names {
		if v, ok := values[name]; !ok || v != 0 {
			findings = append(findings, fmt.Sprintf("has %s at %v (reported: %v)", name, v, ok))
		}
	}
	return findings
}
