package term

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// Reasons of scans: the values of their metric's label.
const (
	scanBeginning   = "beginning"
	scanHistoryLost = "history_lost"
	scanCreated     = "collection_created"
)

// metrics are those of what a term reads.
type metrics struct {
	scans *prometheus.CounterVec
	// scanned counts the events that scans read.
	scanned prometheus.Counter
	// missing is 1 while the collection does not exist.
	missing prometheus.Gauge
	// untimed counts the events whose timestamp has a form that cannot be read.
	untimed prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		scans: obs.CounterVec(registerer, "penstock_publisher_scans_total",
			"Scans of the event store that have begun, by reason: the first start (beginning), the oplog no longer has the changes after the checkpoint, or the next one exceeds the limit of the server (history_lost), or the collection did not exist before (collection_created).",
			"reason", scanBeginning, scanHistoryLost, scanCreated),
		scanned: obs.Counter(registerer, "penstock_publisher_events_scanned_total",
			"Events read by scanning the event store, at the start from the beginning or in a recovery."),
		missing: obs.Gauge(registerer, "penstock_publisher_source_missing",
			"1 while the leader waits for the events collection, which does not exist; otherwise 0."),
		untimed: obs.Counter(registerer, "penstock_publisher_unreadable_timestamps_total",
			"Events that were published without a time, because their timestamp has a form that cannot be read without doubt. An expression that needs the time parks the aggregate. An event that is read again counts again."),
	}
}
