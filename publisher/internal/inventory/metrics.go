package inventory

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// QuarantineLimit is the largest number of records that is counted.
const QuarantineLimit = 10_000

// reading is a gauge whose value expires.
type reading struct {
	obs.Expiring[float64]
	description *prometheus.Desc
}

func (r *reading) set(value float64) { r.Set(value, time.Now()) }

// Describe implements [prometheus.Collector].
func (r *reading) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- r.description }

// Collect implements [prometheus.Collector].
func (r *reading) Collect(values chan<- prometheus.Metric) {
	if value, _, fresh := r.Get(); fresh {
		values <- prometheus.MustNewConstMetric(r.description, prometheus.GaugeValue, value)
	}
}

type metrics struct{ quarantine, runway, complete *reading }

func newMetrics(o *Options) *metrics {
	gauge := func(name, help string) *reading {
		r := &reading{description: prometheus.NewDesc(name, help, nil, nil)}
		r.After = staleAfter * interval
		if o.Registerer != nil {
			o.Registerer.MustRegister(r)
		}
		return r
	}
	return &metrics{
		quarantine: gauge("penstock_publisher_quarantine_records",
			"Records of this stream in the quarantine, counted up to 10,000. Every process counts all records, so take the largest number. Absent if the last count is older than 90 s."),
		runway: gauge("penstock_publisher_oplog_runway_seconds",
			"How far the oplog reaches back before the checkpoint. At 0 the change stream cannot continue, and the publisher scans the event store, unless penstock_publisher_oplog_complete is 1. Every process reports it. Absent without the right to read the oplog, and through a mongos."),
		complete: gauge("penstock_publisher_oplog_complete",
			"1 while the oplog still has the entry of the replica set's initiation: it has dropped nothing, so a short runway only means that it is young. 0 otherwise, and if the user may only read the server's status. Absent when the runway is."),
	}
}
