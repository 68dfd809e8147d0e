package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// Reasons of scans: the values of their metric's label.
const (
	scanBeginning   = "beginning"
	scanHistoryLost = "history_lost"
	scanReplaced    = "collection_replaced"
	scanCreated     = "collection_created"
)

// newScans makes the metric of the scans that have begun.
func newScans(registerer prometheus.Registerer) *prometheus.CounterVec {
	scans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_publisher_scans_total",
		Help: "Scans of the event store that have begun, by reason: the first start (beginning), the oplog no longer has the changes after the checkpoint (history_lost), another collection has the name of the event store (collection_replaced), or the collection did not exist before (collection_created).",
	}, []string{"reason"})
	for _, reason := range []string{scanBeginning, scanHistoryLost, scanReplaced, scanCreated} {
		scans.WithLabelValues(reason)
	}
	registerer.MustRegister(scans)
	return scans
}

// startPoint returns the position at which a stream without a checkpoint starts.
func (w *worker) startPoint(ctx context.Context) (checkpoint.Position, error) {
	if !w.start.At.IsZero() {
		w.logger.Info().Time("at", w.start.At).Msg("no position stored; starting at the configured time")
		return checkpoint.Position{ClusterTime: bson.Timestamp{T: uint32(w.start.At.Unix()), I: 1}, Begin: true}, nil
	}
	now, err := w.history.OperationTime(ctx)
	if err != nil {
		return checkpoint.Position{}, fmt.Errorf("note the operation time: %w", err)
	}
	if w.start.Now {
		w.logger.Info().Msg("no position stored; starting at the present time")
		return checkpoint.Position{ClusterTime: now, Begin: true}, nil
	}
	w.logger.Info().Msg("no position stored; starting from the beginning with a scan of the event store")
	w.scans.WithLabelValues(scanBeginning).Inc()
	return checkpoint.Position{Scan: checkpoint.Scan{OperationTime: now}}, nil
}

// read passes everything from the position on to the pump, until ctx ends or an error stops
// it. It returns that error, or the cause of ctx.
func (t *term) read(ctx context.Context, from checkpoint.Position) error {
	from, err := t.resume(ctx, from)
	for err == nil {
		err = t.follow(ctx, from)
		var end *watch.ReplacedError
		switch {
		case ctx.Err() != nil:
			return err
		case errors.As(err, &end):
			from, err = t.succeed(ctx, end)
		case errors.Is(err, watch.ErrHistoryLost):
			from, err = t.recover(ctx, err)
		}
	}
	return err
}

// follow publishes everything from the position on, until an error stops it.
func (t *term) follow(ctx context.Context, from checkpoint.Position) error {
	if from.Scan.Active() {
		var err error
		if from, err = t.scan(ctx, from.Scan); err != nil {
			return err
		}
		t.pump.mark(from)
	}
	return t.stream(ctx, from)
}

// after returns the first cluster time that a scan does not cover. A stream that starts at
// the noted time itself would show the change that replaced a collection again. The
// returned time can be later than the cluster's; the server then waits for it
// (async_results_merger.cpp).
func after(noted bson.Timestamp) bson.Timestamp {
	return bson.Timestamp{T: noted.T, I: noted.I + 1}
}

// stream follows the change stream.
func (t *term) stream(ctx context.Context, from checkpoint.Position) error {
	t.logger.Info().Bool("resumed", from.Token != nil).Msg("following the change stream")
	options := t.watching
	options.Logger = t.logger
	return watch.New(t.events, options).Run(ctx, streamPosition(from), func(ctx context.Context, batch watch.Batch) error {
		t.access.Works()
		return t.pump.stream(ctx, batch)
	})
}

// streamPosition returns where the stream starts, if necessary after the scan.
func streamPosition(from checkpoint.Position) watch.Position {
	if from.Scan.Active() {
		from = streamAfter(from.Scan)
	}
	return watch.Position{Token: from.Token, Time: from.ClusterTime}
}
