package history

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// labels are the labels of the work that is counted.
type labels struct{ projection, kind string }

// The kinds of work, as a label.
const (
	kindBuild = "build"
	kindSweep = "sweep"
)

// The outcomes for aggregates, as a label.
const (
	outcomeWritten = "written"
	outcomeParked  = "parked"
	outcomeCurrent = "current"
)

// Why work waited, as a label.
const (
	waitedRate = "rate"
	waitedLive = "live"
)

// metrics are the metrics of a process's workers.
type metrics struct {
	events, aggregates *prometheus.CounterVec
	unreadable         prometheus.Counter
	// reconciled are the aggregates that periodic sweeps have folded or repaired.
	reconciled *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		events: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_refold_events_total",
			Help: "Events of the event store that jobs have read, by projection and kind of job (build, sweep).",
		}, []string{"projection", "kind"}),
		aggregates: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_refold_aggregates_total",
			Help: "Aggregates that jobs have processed, by projection, kind of job (build, sweep) and outcome: written, parked, or current (the read model has every event already, or the projection does not concern the aggregate).",
		}, []string{"projection", "kind", "outcome"}),
		unreadable: obs.Counter(registerer, "penstock_projector_refold_unreadable_total",
			"Documents of the event store that jobs left out because they break the event contract."),
		reconciled: obs.CounterVec[string](registerer, "penstock_projector_reconciled_aggregates_total",
			"Aggregates that a sweep found behind the event store and folded from it: the broker lost, expired or dead-lettered their events.", "projection"),
	}
}

// newWaited counts the time that work waits.
func newWaited(registerer prometheus.Registerer) *prometheus.CounterVec {
	return obs.CounterVec(registerer, "penstock_projector_refold_waited_seconds_total",
		"Time that jobs have waited before pages of events, by reason: rate (PENSTOCK_REFOLD_RATE) or live (live events flow, so the jobs yield).",
		"reason", waitedRate, waitedLive)
}

func (m *metrics) count(l labels, c counts) {
	m.unreadable.Add(float64(c[CountUnreadable]))
	for outcome, n := range map[string]int64{
		outcomeWritten: c[CountWritten], outcomeParked: c[CountParked], outcomeCurrent: max(c[CountAggregates]-c[CountWritten]-c[CountParked], 0),
	} {
		m.aggregates.WithLabelValues(l.projection, l.kind, outcome).Add(float64(n))
	}
}
