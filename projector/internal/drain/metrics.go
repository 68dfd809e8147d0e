package drain

import (
	"github.com/prometheus/client_golang/prometheus"

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
	failing        prometheus.GaugeFunc
}

// newMetrics registers the metrics with r, if r is not nil.
func newMetrics(r prometheus.Registerer, failing func() float64) *metrics {
	const namespace, subsystem = "penstock", "projector"
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: namespace, Subsystem: subsystem, Name: n, Help: help}
	}
	m := &metrics{
		sessionsActive: prometheus.NewGauge(prometheus.GaugeOpts(name("sessions_active", "Sessions that this process holds."))),
		slots:          prometheus.NewGauge(prometheus.GaugeOpts(name("session_slots", "Sessions that this process can hold at the same time."))),
		accepts:        prometheus.NewCounterVec(prometheus.CounterOpts(name("session_accepts_total", "Attempts to accept a session: accepted, none (no session was free), busy (the broker throttles) or failed.")), []string{"result"}),
		ends:           prometheus.NewCounterVec(prometheus.CounterOpts(name("session_ends_total", "Sessions that were released, by reason: idle, tenure (others have a turn), overflow (an aggregate that waited had more events than a session holds), unsettled (the broker did not confirm a settlement), lost (lock or link), stopped.")), []string{"reason"}),
		settlements:    prometheus.NewCounterVec(prometheus.CounterOpts(name("settlements_total", "Attempts to settle a message, by operation (complete or dead_letter) and result: ok, or why the broker did not confirm it.")), []string{"operation", "result"}),
		invalid:        prometheus.NewCounter(prometheus.CounterOpts(name("invalid_messages_total", "Messages that are not events; they are in the dead-letter queue."))),
		reconnects:     prometheus.NewCounter(prometheus.CounterOpts(name("connections_replaced_total", "Connections to the broker that were closed and replaced by new ones."))),
		failing:        prometheus.NewGaugeFunc(prometheus.GaugeOpts(name("aggregates_retrying", "Aggregates of which this process has tried an event again within the last minute, because a store failed or an event is missing.")), failing),
	}
	// rate() and increase() miss the first event of a counter that appears with it, so
	// every label value exists from the start.
	for _, result := range []string{acceptedSession, acceptedNone, acceptBusy, acceptFailed} {
		m.accepts.WithLabelValues(result)
	}
	for _, reason := range []ending{endIdle, endTenure, endOverflow, endUnsettled, endLost, endStopped} {
		m.ends.WithLabelValues(string(reason))
	}
	for _, operation := range []string{operationComplete, operationDeadLetter} {
		for class := sbus.ClassNone; class <= sbus.ClassStopped; class++ {
			m.settlements.WithLabelValues(operation, resultOf(class))
		}
	}
	if r != nil {
		r.MustRegister(m.sessionsActive, m.slots, m.accepts, m.ends, m.settlements, m.invalid, m.reconnects, m.failing)
	}
	return m
}

func resultOf(class sbus.Class) string {
	if class == sbus.ClassNone {
		return "ok"
	}
	return class.String()
}
