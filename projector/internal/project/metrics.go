package project

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the engine's. Every label has few values: the projections, and fixed
// sets.
type metrics struct {
	events *prometheus.CounterVec
	gaps   *prometheus.CounterVec
	age    prometheus.Histogram
}

// What became of an event in a projection, as the label of a metric.
const (
	countApplied   = "applied"
	countDuplicate = "duplicate"
	countIgnored   = "ignored"
	countParked    = "parked"
	countRepaired  = "repaired"
	countDeferred  = "deferred"
)

// What was done about a gap, as the label of a metric.
const (
	gapHeld     = "held"
	gapRepaired = "repaired"
	gapMissing  = "missing"
)

// newMetrics registers the metrics; with nil they are counted nowhere. Every counter
// begins at 0: one that appears with its first event hides that event from rate()
// and increase().
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		events: f.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_events_total",
			Help: "Events by projection and outcome: applied, duplicate, ignored, parked, repaired in the generation that readers see; deferred in one that is being built (left to its job).",
		}, []string{"projection", "outcome"}),
		gaps: f.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_gaps_total",
			Help: "Gaps met in an aggregate's events by what was done about them: held, repaired, missing (the event store has a hole too).",
		}, []string{"result"}),
		age: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "penstock_projector_event_age_seconds",
			Help:    "Time from an event's timestamp to its durable read models.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400},
		}),
	}
	for _, result := range []string{gapHeld, gapRepaired, gapMissing} {
		m.gaps.WithLabelValues(result)
	}
	return m
}

// declare makes the counters of a projection.
func (m *metrics) declare(projection string) {
	for _, outcome := range []string{countApplied, countDuplicate, countIgnored, countParked, countRepaired, countDeferred} {
		m.events.WithLabelValues(projection, outcome)
	}
}
