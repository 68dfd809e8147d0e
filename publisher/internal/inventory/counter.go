package inventory

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// interval is the time between two measurements, plus or minus a quarter.
	interval = 30 * time.Second
	// staleAfter is the number of intervals after which a measured number is stale.
	staleAfter = 3
	// lookTimeout bounds one measurement.
	lookTimeout = 10 * time.Second
	// refusedWait is how long the counter waits before it asks again after a refusal.
	refusedWait = time.Hour
)

// Runway is how far the oplog reaches back before the checkpoint.
type Runway struct {
	// Left is negative if the oplog no longer has the checkpoint.
	Left time.Duration
	// Complete says that the oplog has dropped nothing, so it has every position.
	Complete bool
}

// Options configure a [Counter].
type Options struct {
	// Quarantine returns the number of records of this stream, up to limit. Required.
	Quarantine func(ctx context.Context, limit int64) (int64, error)
	// Oplog returns how far the oplog reaches back before the checkpoint. ok is false if
	// there is no checkpoint to compare with. Without the right to read the oplog, it returns
	// [mongox.ErrOplogHidden]. Required.
	Oplog func(ctx context.Context) (runway Runway, ok bool, err error)
	// Registerer gets the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger logs nothing by default.
	Logger zerolog.Logger
}

// Counter measures quarantine and oplog. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// Only Run uses the following fields: whether the last measurement failed, and when to
	// ask for the oplog again.
	quarantineFails, oplogFails bool
	oplogAfter                  time.Time
}

// New makes a counter and registers its metrics. It measures nothing before Run.
func New(o Options) *Counter {
	return &Counter{options: o, metrics: newMetrics(&o)}
}

// Run measures until ctx ends. It logs a failure, whose metric becomes absent. Call Run
// once.
func (c *Counter) Run(ctx context.Context) {
	poll.Spread(ctx, interval, func() time.Duration {
		c.countQuarantine(ctx)
		c.measureOplog(ctx)
		return interval
	})
}

// Quarantined returns the last count of the quarantine; false if it is stale.
func (c *Counter) Quarantined() (int64, bool) {
	n, _, ok := c.metrics.quarantine.Get()
	return int64(n), ok
}

// Oplog returns the last runway; false if it is stale or cannot be read.
func (c *Counter) Oplog() (Runway, bool) {
	left, _, ok := c.metrics.runway.Get()
	complete, _, _ := c.metrics.complete.Get()
	return Runway{Left: time.Duration(left * float64(time.Second)), Complete: complete == 1}, ok
}

func (c *Counter) countQuarantine(ctx context.Context) {
	looking, cancel := mongox.Timeout(ctx, lookTimeout)
	defer cancel()
	records, err := c.options.Quarantine(looking, QuarantineLimit)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		c.metrics.quarantine.set(float64(records))
	} else if !c.quarantineFails {
		c.options.Logger.Warn().Err(err).Msg("records in the quarantine not counted; retrying")
	}
	c.quarantineFails = err != nil
}

func (c *Counter) measureOplog(ctx context.Context) {
	if time.Now().Before(c.oplogAfter) {
		return
	}
	looking, cancel := mongox.Timeout(ctx, lookTimeout)
	defer cancel()
	runway, ok, err := c.options.Oplog(looking)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && ok:
		c.metrics.runway.set(runway.Left.Seconds())
		complete := 0.0
		if runway.Complete {
			complete = 1
		}
		c.metrics.complete.set(complete)
	case errors.Is(err, mongox.ErrOplogHidden):
		c.oplogAfter = time.Now().Add(refusedWait)
		if !c.oplogFails {
			c.options.Logger.Info().Err(err).Msg("penstock_publisher_oplog_runway_seconds is absent: it needs the role read on the database local, or clusterMonitor, and a replica set")
		}
	case err != nil && !c.oplogFails:
		c.options.Logger.Warn().Err(err).Msg("runway of the oplog not measured; retrying")
	}
	c.oplogFails = err != nil
}
