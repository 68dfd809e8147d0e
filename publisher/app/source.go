package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/scan"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// errOplogTooShort says that scans of the event store take longer than the oplog
// reaches back: after each, the history from its beginning is lost already.
var errOplogTooShort = errors.New("oplog does not reach back over a scan of the event store: enlarge it, such as by db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 48})")

// maxScans is how many scans in a row may be lost.
const maxScans = 3

// The reasons of scans, as the label of their metric.
const (
	scanBeginning   = "beginning"
	scanHistoryLost = "history_lost"
	scanReplaced    = "collection_replaced"
	scanCreated     = "collection_created"
)

// newScans is the metric of the scans that were begun.
func newScans(registerer prometheus.Registerer) *prometheus.CounterVec {
	scans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_publisher_scans_total",
		Help: "Scans of the event store that were begun, by reason: the first start (beginning), an oplog that no longer has what follows the checkpoint (history_lost), another collection under the name of the event store (collection_replaced), or a collection that did not exist before (collection_created).",
	}, []string{"reason"})
	for _, reason := range []string{scanBeginning, scanHistoryLost, scanReplaced, scanCreated} {
		scans.WithLabelValues(reason)
	}
	registerer.MustRegister(scans)
	return scans
}

// startPoint is the position where a stream without a checkpoint starts.
func (w *worker) startPoint(ctx context.Context) (checkpoint.Position, error) {
	if !w.start.At.IsZero() {
		w.logger.Info().Time("at", w.start.At).Msg("starting at a time")
		return checkpoint.Position{ClusterTime: bson.Timestamp{T: uint32(w.start.At.Unix()), I: 1}}, nil
	}
	now, err := w.history.OperationTime(ctx)
	if err != nil {
		return checkpoint.Position{}, fmt.Errorf("note the operation time: %w", err)
	}
	if w.start.Now {
		w.logger.Info().Msg("starting now")
		return checkpoint.Position{ClusterTime: now}, nil
	}
	w.logger.Info().Msg("starting from the beginning: scanning the event store")
	w.scans.WithLabelValues(scanBeginning).Inc()
	return checkpoint.Position{Scan: checkpoint.Scan{OperationTime: now}}, nil
}

// read brings everything from that position on to the pump, until ctx ends (then
// its error is the cause) or reading cannot go on.
func (t *term) read(ctx context.Context, from checkpoint.Position) error {
	from, err := t.resume(ctx, from)
	for lost := 0; err == nil; {
		err = t.follow(ctx, from)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, watch.ErrInvalidated):
			t.logger.Warn().Msg("events collection was dropped, renamed or replaced; scanning the collection of its name from the beginning")
			from, err = t.begin(ctx, scanReplaced)
		case errors.Is(err, watch.ErrHistoryLost):
			if t.pump.moved {
				lost = 0
			}
			if lost++; lost > maxScans {
				return fmt.Errorf("%w: %w", errOplogTooShort, err)
			}
			t.logger.Warn().Err(err).Msg("the oplog no longer has what follows the checkpoint; scanning the event store, whose events are published again")
			from, err = t.begin(ctx, scanHistoryLost)
		}
	}
	return err
}

// follow publishes everything from that position on until reading cannot go on.
func (t *term) follow(ctx context.Context, from checkpoint.Position) error {
	if from.Scan.Active() {
		if err := t.scan(ctx, from.Scan); err != nil {
			return err
		}
		from = checkpoint.Position{ClusterTime: after(from.Scan.OperationTime)}
		t.pump.mark(from)
	}
	return t.stream(ctx, from)
}

// after is the first cluster time that a scan does not cover. A stream that starts at the
// noted time itself would show the change that replaced a collection again.
func after(noted bson.Timestamp) bson.Timestamp {
	return bson.Timestamp{T: noted.T, I: noted.I + 1}
}

// scan publishes what is in the event store.
func (t *term) scan(ctx context.Context, progress checkpoint.Scan) error {
	position, err := scanPosition(progress)
	if err != nil {
		return err
	}
	t.logger.Info().Bool("resumed", !position.IsZero()).Msg("scanning the event store")
	t.pump.moved = false
	options := t.scanning
	options.Logger = t.logger
	err = scan.New(t.history, options).Run(ctx, position, progress.OperationTime, func(ctx context.Context, documents []bson.Raw) error {
		t.access.works()
		return t.pump.scanned(ctx, progress.OperationTime, documents)
	})
	if err != nil {
		return err
	}
	t.logger.Info().Msg("event store is scanned; following its change stream from the time noted before")
	return nil
}

// stream follows the change stream.
func (t *term) stream(ctx context.Context, from checkpoint.Position) error {
	t.logger.Info().Bool("resumed", from.Token != nil).Msg("following the change stream")
	options := t.watching
	options.Logger = t.logger
	return watch.New(t.events, options).Run(ctx, streamPosition(from), func(ctx context.Context, batch watch.Batch) error {
		t.access.works()
		return t.pump.stream(ctx, batch)
	})
}

// streamPosition is where the stream starts, or will start when a scan is over.
func streamPosition(from checkpoint.Position) watch.Position {
	if from.Scan.Active() {
		return watch.Position{Time: from.Scan.OperationTime}
	}
	return watch.Position{Token: from.Token, Time: from.ClusterTime}
}

// scanPosition is where a scan goes on.
func scanPosition(progress checkpoint.Scan) (scan.Position, error) {
	if progress.AggregateID.Type == 0 {
		return scan.Position{}, nil
	}
	kind, data, err := bson.MarshalValue(progress.EventID)
	if err != nil {
		return scan.Position{}, fmt.Errorf("encode the scan's position: %w", err)
	}
	return scan.Position{AggregateID: progress.AggregateID, EventID: bson.RawValue{Type: kind, Value: data}}, nil
}
