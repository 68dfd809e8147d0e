package watch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// Why a stream was reopened, as the label of a metric.
const (
	causeError  = "error"
	causeSilent = "silent"
)

// Metrics are the stream's metrics. All terms of a process share one set.
type Metrics struct {
	read      prometheus.Counter
	mutations *prometheus.CounterVec
	reopened  *prometheus.CounterVec
	caughtUp  prometheus.Gauge
	shardWait prometheus.Gauge
	// current is the time up to which the stream is known to have read everything, in Unix
	// nanoseconds; 0 between terms.
	current atomic.Int64
}

// NewMetrics registers the stream's metrics. With a nil registerer they are not exported.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		read: obs.Counter(registerer, "penstock_publisher_events_read_total",
			"Events read from the change stream."),
		mutations: obs.CounterVec(registerer, "penstock_publisher_source_mutations_total",
			"Changes of stored events and of their collection, which should be immutable, by operation: update, replace, delete, drop, rename, dropDatabase, invalidate or other. They are not published.",
			"operation", append(slices.Clone(operations[1:]), opOther)...),
		reopened: obs.CounterVec(registerer, "penstock_publisher_stream_reopened_total",
			"Times that the change stream was reopened, by cause: error or silent (no progress within PENSTOCK_STREAM_SILENCE).",
			"cause", causeError, causeSilent),
		caughtUp: obs.Gauge(registerer, "penstock_publisher_stream_caught_up",
			"1 while the change stream is close to the end of the oplog; 0 while it catches up and on a process that does not lead."),
		shardWait: obs.Gauge(registerer, "penstock_publisher_stream_shard_wait_seconds",
			"How far the change stream is behind although it has read everything: in a sharded cluster it waits until every shard has written or made its next no-op entry (periodicNoopIntervalSecs). Below 2 on a replica set; 0 while the stream catches up, because that is lag."),
	}
	obs.GaugeFunc(registerer, "penstock_publisher_stream_lag_seconds",
		"How far the change stream is read behind the event store. It grows while the stream is silent, and is 0 on a process that does not lead.", func() float64 { return m.Lag().Seconds() })
	return m
}

// Begin says that a term begins at that position. The lag counts from it before the first
// reply of a stream, also during a scan.
func (m *Metrics) Begin(from Position) { m.upTo(startOf(from)) }

// End says that the term is over. A process that does not lead has no lag.
func (m *Metrics) End() {
	m.current.Store(0)
	m.shardWait.Set(0)
}

// replied records how far a reply without changes is behind the server. A change stream
// through mongos passes a time only after all shards have passed it.
func (m *Metrics) replied(chunk Chunk) {
	behind, _ := chunk.behind()
	if len(chunk.Changes) > 0 || behind > closeBehind {
		behind = 0
	}
	m.shardWait.Set(behind.Seconds())
}

// upTo says that everything before t has been read.
func (m *Metrics) upTo(t time.Time) { m.current.Store(t.UnixNano()) }

// Lag returns how far the stream is read behind the event store; 0 on a process that does
// not lead.
func (m *Metrics) Lag() time.Duration {
	current := m.current.Load()
	if current == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, current)))
}

func (m *Metrics) setCaughtUp(caughtUp bool) {
	value := 0.0
	if caughtUp {
		value = 1
	}
	m.caughtUp.Set(value)
}
