package leader

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// reason says why a term ended, as the label of a metric.
type reason string

const (
	reasonStopping     reason = "stopping"
	reasonLeaseLost    reason = "lease_lost"
	reasonTrustExpired reason = "trust_expired"
	reasonWorkFailed   reason = "work_failed"
	reasonWorkerStuck  reason = "worker_stuck"
)

type metrics struct {
	leader prometheus.Gauge
	terms  *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	return metrics{
		leader: obs.Gauge(registerer, "penstock_publisher_leader",
			"1 while this process does a leader's work, from the start of a term to the end of its drain."),
		terms: obs.CounterVec(registerer, "penstock_publisher_terms_total",
			"Terms that ended in this process, by reason: stopping (the process ends), lease_lost, trust_expired (the lease was not renewed in time), work_failed (an error ended the term) or worker_stuck (the work did not stop in time, so the process exits).",
			"reason", reasonStopping, reasonLeaseLost, reasonTrustExpired, reasonWorkFailed, reasonWorkerStuck),
	}
}
