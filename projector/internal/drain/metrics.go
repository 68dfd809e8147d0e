package drain

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// The results of an attempt to accept a session, as the label of a metric.
const (
	acceptedSession = "accepted"
	acceptedNone    = "none"
	acceptBusy      = "busy"
	acceptFailed    = "failed"
)

// The operations that settle a message, as the label of a metric.
const (
	operationComplete   = "complete"
	operationDeadLetter = "dead_letter"
)

// metrics are those of draining; see the help texts.
type metrics struct {
	sessionsActive prometheus.Gauge
	slots          prometheus.Gauge
	accepts        *prometheus.CounterVec
	ends           *prometheus.CounterVec
	settlements    *prometheus.CounterVec
	invalid        prometheus.Counter
	reconnects     prometheus.Counter
	// waited is how long messages have waited in the subscription.
	waited *health.Recent
	// waiting counts the sessions that wait for a store.
	waiting atomic.Int64
}

// newMetrics registers the metrics with r, if r is not nil.
func newMetrics(r prometheus.Registerer, behind time.Duration) *metrics {
	m := &metrics{
		waited:         health.NewRecent(behind),
		sessionsActive: obs.Gauge(r, "penstock_projector_sessions_active", "Sessions that this process holds."),
		slots:          obs.Gauge(r, "penstock_projector_session_slots", "Sessions that this process can hold at the same time."),
		accepts: obs.CounterVec(r, "penstock_projector_session_accepts_total",
			"Attempts to accept a session: accepted, none (no session was free), busy (the broker throttles) or failed.",
			"result", acceptedSession, acceptedNone, acceptBusy, acceptFailed),
		ends: obs.CounterVec(r, "penstock_projector_session_ends_total",
			"Sessions that were released, by reason: idle, tenure (others have a turn), unsettled (the broker did not confirm a settlement), lost (lock or link), stopped.",
			"reason", endIdle, endTenure, endUnsettled, endLost, endStopped),
		settlements: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_settlements_total",
			Help: "Settlements of messages, by operation (complete or dead_letter) and result: ok, or why the broker did not confirm it.",
		}, []string{"operation", "result"}),
		invalid:    obs.Counter(r, "penstock_projector_invalid_messages_total", "Messages that are not events; they are in the dead-letter queue."),
		reconnects: obs.Counter(r, "penstock_projector_connections_replaced_total", "Connections to the broker that were closed and replaced by new ones."),
	}
	obs.GaugeFunc(r, "penstock_projector_sessions_waiting",
		"Sessions of this process that settle nothing and try their events again, because a store does not answer.", func() float64 { return float64(m.waiting.Load()) })
	for _, operation := range []string{operationComplete, operationDeadLetter} {
		for class := sbus.ClassNone; class <= sbus.ClassStopped; class++ {
			m.settlements.WithLabelValues(operation, resultOf(class))
		}
	}
	return m
}

func resultOf(class sbus.Class) string {
	if class == sbus.ClassNone {
		return "ok"
	}
	return class.String()
}
