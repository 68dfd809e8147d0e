package drain

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// metrics are those of draining; see the help texts.
type metrics struct {
	sessionsActive prometheus.Gauge
	accepts        *prometheus.CounterVec
	ends           *prometheus.CounterVec
	settlements    *prometheus.CounterVec
	invalid        prometheus.Counter
	reconnects     prometheus.Counter
}

// newMetrics registers with r, where it is not nil.
func newMetrics(r prometheus.Registerer) *metrics {
	const namespace, subsystem = "penstock", "projector"
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: namespace, Subsystem: subsystem, Name: n, Help: help}
	}
	m := &metrics{
		sessionsActive: prometheus.NewGauge(prometheus.GaugeOpts(name("sessions_active", "Sessions that this process holds."))),
		accepts:        prometheus.NewCounterVec(prometheus.CounterOpts(name("session_accepts_total", "Attempts to accept a session: accepted, none (no session was free), busy (the broker throttles) or failed.")), []string{"result"}),
		ends:           prometheus.NewCounterVec(prometheus.CounterOpts(name("session_ends_total", "Sessions that were given up, by reason: idle, tenure (others shall have a turn), gap (an event is missing), lost (lock or link), stopped.")), []string{"reason"}),
		settlements:    prometheus.NewCounterVec(prometheus.CounterOpts(name("settlements_total", "Attempts to settle a message, by operation and result.")), []string{"operation", "result"}),
		invalid:        prometheus.NewCounter(prometheus.CounterOpts(name("invalid_messages_total", "Messages that are no event; they are in the dead-letter queue."))),
		reconnects:     prometheus.NewCounter(prometheus.CounterOpts(name("connections_replaced_total", "Connections to the broker that were given up for new ones."))),
	}
	if r != nil {
		r.MustRegister(m.sessionsActive, m.accepts, m.ends, m.settlements, m.invalid, m.reconnects)
	}
	return m
}

func resultOf(class sbus.Class) string {
	if class == sbus.ClassNone {
		return "ok"
	}
	return class.String()
}
