package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// metrics are the engine's metrics. Label values are bounded: the names of the
// projections, and fixed sets.
type metrics struct {
	events *prometheus.CounterVec
	gaps   *prometheus.CounterVec
	age    prometheus.Histogram
}

// The outcomes of an event in a projection, as values of a metric's label.
const (
	countApplied   = "applied"
	countDuplicate = "duplicate"
	countIgnored   = "ignored"
	countParked    = "parked"
	countRepaired  = "repaired"
	countDeferred  = "deferred"
)

// The results of a gap, as values of a metric's label.
const (
	gapRepaired = "repaired"
	gapMissing  = "missing"
)

// newMetrics registers the metrics, unless r is nil. Every counter is created with the
// value 0, because rate() and increase() miss the first event of a counter that appears
// with it.
func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		events: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_events_total",
			Help: "Events by projection and outcome: applied, duplicate, ignored, parked, repaired in the generation that readers see; deferred in one that is being built (left to its job).",
		}, []string{"projection", "outcome"}),
		gaps: obs.CounterVec(r, "penstock_projector_gaps_total",
			"Gaps in an aggregate's events, by result: repaired (the missing events were read from the event store) or missing (the event store lacks them too).",
			"result", gapRepaired, gapMissing),
		age: obs.Histogram(r, "penstock_projector_event_age_seconds", "Time from an event's timestamp to its durable read models.",
			.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 7200, 86400),
	}
}

// declare creates the counters of a projection with the value 0.
func (m *metrics) declare(projection string) {
	for _, outcome := range []string{countApplied, countDuplicate, countIgnored, countParked, countRepaired, countDeferred} {
		m.events.WithLabelValues(projection, outcome)
	}
}
