package app

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

const (
	// quarantineLimit is the largest number of records that is counted.
	quarantineLimit = 10_000
	// inventoryInterval is the time between two measurements, plus or minus a quarter. A number is
	// stale after three intervals.
	inventoryInterval = 30 * time.Second
	// refusedWait is how long the inventory waits before it asks for the oplog again after a
	// refusal.
	refusedWait = time.Hour
)

var (
	descQuarantine = prometheus.NewDesc("penstock_publisher_quarantine_records",
		"Records of this stream in the quarantine, counted up to 10,000. Every process counts all records, so take the largest number. Absent if the last count is older than 90 s.", nil, nil)
	descRunway = prometheus.NewDesc("penstock_publisher_oplog_runway_seconds",
		"How far the oplog reaches back before the checkpoint. At 0 the change stream cannot continue, and the publisher scans the event store, unless penstock_publisher_oplog_complete is 1. Every process reports it. Absent without the right to read the oplog, and through a mongos.", nil, nil)
	descComplete = prometheus.NewDesc("penstock_publisher_oplog_complete",
		"1 while the oplog still has the entry of the replica set's initiation: it has dropped nothing, so a short runway only means that it is young. 0 otherwise, and if the user may only read the server's status. Absent when the runway is.", nil, nil)
)

// runway is how far the oplog reaches back before the checkpoint.
type runway struct {
	// left is negative if the oplog no longer has the checkpoint.
	left time.Duration
	// complete says that the oplog has dropped nothing, so it has every position.
	complete bool
}

// inventory measures what can fill up or run out without notice: the records in the quarantine,
// and how far the oplog reaches back before the checkpoint. Every process measures them, not only
// the leader. If a number can no longer be measured, its metric becomes absent: it is neither stale
// nor 0.
type inventory struct {
	// count returns the number of records of this stream, up to a limit.
	count func(ctx context.Context, limit int64) (int64, error)
	// measure returns the runway. ok is false if there is no checkpoint to compare with. Without
	// the role read on the database local, or clusterMonitor, and through a mongos, it returns
	// [mongox.ErrOplogHidden].
	measure func(ctx context.Context) (r runway, ok bool, err error)
	logger  zerolog.Logger

	quarantined obs.Expiring[int64]
	oplog       obs.Expiring[runway]
	// Only run uses the following fields: whether the last measurement failed, and when to ask for
	// the oplog again.
	quarantineFails, oplogFails bool
	oplogAfter                  time.Time
}

// newInventory makes the inventory and registers its metrics. It runs beside the terms.
func (p *Publisher) newInventory(s *stores) *inventory {
	i := &inventory{
		count:   quarantine.NewRecords(s.state, p.config.Stream.Name).Count,
		measure: func(ctx context.Context) (runway, bool, error) { return measureRunway(ctx, s, p.config) },
		logger:  p.logger,
	}
	p.registry.MustRegister(i)
	return i
}

// run measures until ctx ends. It logs a failure.
func (i *inventory) run(ctx context.Context) {
	i.quarantined.After, i.oplog.After = 3*inventoryInterval, 3*inventoryInterval
	poll.Spread(ctx, inventoryInterval, func() time.Duration {
		i.countQuarantine(ctx)
		i.measureOplog(ctx)
		return inventoryInterval
	})
}

func (i *inventory) countQuarantine(ctx context.Context) {
	counting, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	records, err := i.count(counting, quarantineLimit)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		i.quarantined.Set(records, time.Now())
	} else if !i.quarantineFails {
		i.logger.Warn().Err(err).Msg("records in the quarantine not counted; retrying")
	}
	i.quarantineFails = err != nil
}

func (i *inventory) measureOplog(ctx context.Context) {
	if time.Now().Before(i.oplogAfter) {
		return
	}
	left, ok, err := i.measure(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && ok:
		i.oplog.Set(left, time.Now())
	case errors.Is(err, mongox.ErrOplogHidden):
		i.oplogAfter = time.Now().Add(refusedWait)
		if !i.oplogFails {
			i.logger.Info().Err(err).Msg("penstock_publisher_oplog_runway_seconds is absent: it needs the role read on the database local, or clusterMonitor, and a replica set")
		}
	case err != nil && !i.oplogFails:
		i.logger.Warn().Err(err).Msg("runway of the oplog not measured; retrying")
	}
	i.oplogFails = err != nil
}

// Describe implements [prometheus.Collector].
func (*inventory) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descQuarantine
	descriptions <- descRunway
	descriptions <- descComplete
}

// Collect implements [prometheus.Collector].
func (i *inventory) Collect(values chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if records, _, fresh := i.quarantined.Get(); fresh {
		gauge(descQuarantine, float64(records))
	}
	if r, _, fresh := i.oplog.Get(); fresh {
		gauge(descRunway, r.left.Seconds())
		complete := 0.0
		if r.complete {
			complete = 1
		}
		gauge(descComplete, complete)
	}
}

// measureRunway measures how far the oplog reaches back before the checkpoint. ok is false if
// there is no checkpoint, or if its time is unknown.
func measureRunway(ctx context.Context, s *stores, c config.Config) (r runway, ok bool, err error) {
	read, err := readCheckpoint(ctx, s, c)
	if read == nil || err != nil {
		return r, false, err
	}
	at := watch.TimeOf(term.StreamPosition(read.Position))
	if at.IsZero() {
		return r, false, nil
	}
	begin, err := oplogBegin(ctx, s)
	return runway{left: at.Sub(begin.Time()), complete: begin.Complete}, err == nil, err
}

// fill reads the size of the topic and its limit, in bytes.
func fill(ctx context.Context, namespace *sbus.Namespace, topic string) (size, limit int64, err error) {
	properties, err := namespace.Topic(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	size, err = namespace.TopicSize(ctx, topic)
	return size, int64(sbus.Value(properties.MaxSizeInMegabytes)) << 20, err
}
