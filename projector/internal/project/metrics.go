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

// newMetrics registers the metrics; with nil they are counted nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		events: f.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_events_total",
			Help: "Events by projection and outcome: applied, duplicate, ignored, parked, repaired.",
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
}
