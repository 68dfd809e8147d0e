package term

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// startPoint returns the position at which a stream without a checkpoint starts.
func (r *Runner) startPoint(ctx context.Context) (checkpoint.Position, error) {
	if !r.start.At.IsZero() {
		r.options.Logger.Info().Time("at", r.start.At).Msg("no position stored; starting at the configured time")
		return checkpoint.Position{ClusterTime: bson.Timestamp{T: uint32(r.start.At.Unix()), I: 1}, Begin: true}, nil
	}
	now, err := r.options.History.OperationTime(ctx)
	if err != nil {
		return checkpoint.Position{}, fmt.Errorf("note the operation time: %w", err)
	}
	if r.start.Now {
		r.options.Logger.Info().Msg("no position stored; starting at the present time")
		return checkpoint.Position{ClusterTime: now, Begin: true}, nil
	}
	r.options.Logger.Info().Msg("no position stored; starting from the beginning with a scan of the event store")
	r.scans.WithLabelValues(scanBeginning).Inc()
	return checkpoint.Position{Scan: checkpoint.Scan{OperationTime: now}}, nil
}

// read passes everything from the position on to the pump, until ctx ends or an error stops
// it. It returns that error, or the cause of ctx.
func (t *term) read(ctx context.Context, from checkpoint.Position) error {
	from, err := t.resume(ctx, from)
	for err == nil {
		err = t.follow(ctx, from)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, watch.ErrInvalidated):
			return t.finish(ctx)
		case errors.Is(err, watch.ErrHistoryLost):
			from, err = t.recover(ctx, err)
		}
	}
	return err
}

// follow publishes everything from the position on, until an error stops it.
func (t *term) follow(ctx context.Context, from checkpoint.Position) error {
	for from.Scan.Active() {
		var err error
		if from, err = t.scan(ctx, from.Scan); err != nil {
			return err
		}
		t.pump.mark(from)
	}
	return t.stream(ctx, from)
}

// stream follows the change stream.
func (t *term) stream(ctx context.Context, from checkpoint.Position) error {
	t.logger.Info().Bool("resumed", from.Token != nil).Msg("following the change stream")
	options := t.watching
	options.Logger = t.logger
	return watch.New(t.options.Events, options).Run(ctx, StreamPosition(from), func(ctx context.Context, batch watch.Batch) error {
		t.access.Works()
		return t.pump.stream(ctx, batch)
	})
}

// StreamPosition returns where the stream starts, if necessary after the scan.
func StreamPosition(from checkpoint.Position) watch.Position {
	if from.Scan.Active() {
		from = streamAfter(from.Scan)
	}
	return watch.Position{Token: from.Token, Time: from.ClusterTime}
}
