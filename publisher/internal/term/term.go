package term

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

const (
	// askTimeout bounds the claim of the checkpoint and each look at the event store.
	askTimeout = 10 * time.Second
	// askPause is the first pause between two attempts.
	askPause = 2 * time.Second
)

// ErrSetup says that a prerequisite of the publisher is missing. The error that wraps it
// holds the remedy.
var ErrSetup = errors.New("not set up")

var (
	errDrained = errors.New("term has drained")
	errEnded   = errors.New("dispatcher has ended")
)

// work does the work of one term until ctx ends. ctx is derived from leading.Held: a stop
// ends ctx alone, the loss of the lease ends both. After ctx has ended, work returns only
// errors that end the process.
func (r *Runner) work(ctx context.Context, leading leadership) error {
	claim, from, err := r.claim(ctx, leading.Identity())
	if err != nil {
		return UnlessEnded(ctx, err)
	}
	logger := r.options.Logger.With().Int64("epoch", claim.Epoch).Logger()
	t := &term{Runner: r, logger: logger, pump: &pump{
		reader:     r.reader,
		epoch:      claim.Epoch,
		watermark:  checkpoint.NewWatermark(),
		quarantine: r.options.Quarantine,
		storing:    r.storing,
		since:      claim.Since,
		record:     claim.RecordIDs,
		checkFirst: r.options.History.CheckFirstID,
		untimed:    r.untimed,
		logger:     logger,
	}}
	options := r.publishing
	options.Epoch, options.Logger = claim.Epoch, logger
	options.Acked, options.Quarantine = t.pump.acked, t.pump.refused
	options.Closing = func() (context.Context, context.CancelFunc) {
		return endingWithin(leading, maxClosing, closingShare)
	}
	t.dispatcher = publish.New(options)
	t.pump.submit = t.dispatcher.Submit
	t.saver = checkpoint.NewSaver(claim, t.pump.watermark, r.saving)

	defer r.ended()
	r.watching.Metrics.Begin(StreamPosition(from))
	defer r.watching.Metrics.End()
	return UnlessEnded(ctx, t.run(ctx, leading, from))
}

// UnlessEnded returns err unless ctx has ended and err is not fatal.
func UnlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && !Fatal(err) {
		return nil
	}
	return err
}

// claim claims the checkpoint for the term. If the checkpoint has no position, claim saves
// a start point.
func (r *Runner) claim(ctx context.Context, identity string) (claim *checkpoint.Claim, from checkpoint.Position, err error) {
	here, err := r.here(ctx)
	if err != nil {
		return nil, from, err
	}
	ctx, cancel := mongox.Timeout(ctx, askTimeout)
	defer cancel()
	claim, err = r.options.Checkpoints.Claim(ctx, identity, here)
	switch {
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		return nil, from, fmt.Errorf("%w: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", ErrSetup, err)
	case err != nil:
		return nil, from, ExplainPipeline(mongox.Explain(ctx, err))
	}
	from = claim.Position
	if from.IsZero() {
		if from, err = r.startPoint(ctx); err != nil {
			return nil, from, mongox.Explain(ctx, err)
		}
		from.CollectionUUID = here.CollectionUUID
		if err := claim.Save(ctx, from); err != nil {
			return nil, from, fmt.Errorf("save the start point: %w", mongox.Explain(ctx, err))
		}
		if from.Begin {
			claim.Since = from.ClusterTime
		}
	}
	if claim.IDs == "" {
		kind, err := r.options.History.LearnIDs(ctx)
		if err == nil && kind != "" {
			err = claim.RecordIDs(ctx, kind)
		}
		if err != nil {
			return nil, from, mongox.Explain(ctx, err)
		}
	}
	r.reader.Only(claim.IDs)
	return claim, from, nil
}

// term is a running term.
type term struct {
	*Runner
	logger     zerolog.Logger
	pump       *pump
	dispatcher *publish.Dispatcher
	saver      *checkpoint.Saver
	// lost counts how often in a row the stream was lost before it moved.
	lost int
}

// run publishes from the position on until ctx or the lease ends, or an error stops it. It
// returns that error. When run returns, everything that it started has ended, and it has
// tried to save the checkpoint.
func (t *term) run(ctx context.Context, leading leadership, from checkpoint.Position) error {
	held := leading.Held()
	// Stop reading first. Stop publishing after everything in flight is acknowledged.
	publishing, endPublishing := context.WithCancelCause(held)
	defer endPublishing(errDrained)
	reading, endReading := context.WithCancelCause(ctx)
	defer endReading(errDrained)

	var group sync.WaitGroup
	var published, saved error
	group.Go(func() {
		published = t.dispatcher.Run(publishing)
		endReading(errEnded)
	})
	group.Go(func() {
		if saved = t.saver.Run(publishing); saved != nil {
			endReading(saved)
			endPublishing(saved)
		}
	})
	read := t.read(reading, from)
	t.idle()
	if publishing.Err() == nil {
		t.drain(publishing)
	}
	endPublishing(errDrained)
	group.Wait()
	flushing, endFlushing := endingWithin(leading, maxFlushing, flushingShare)
	defer endFlushing()
	if err := t.saver.Flush(flushing); err != nil && saved == nil {
		t.logger.Warn().Err(err).Msg("checkpoint not saved at the end of the term; the next term publishes a few events again")
	}
	switch {
	case saved != nil:
		return saved
	case published != nil && !errors.Is(published, errDrained) && held.Err() == nil:
		return published
	case ctx.Err() != nil || errors.Is(read, errEnded):
		return nil
	default:
		return read
	}
}

// drain waits until the events in flight are acknowledged, for at most drainTimeout.
func (t *term) drain(ctx context.Context) {
	events, _ := t.dispatcher.Inflight()
	t.logger.Info().Int("inflight", events).Msg("draining")
	ctx, cancel := context.WithTimeout(ctx, t.options.Config.Process.DrainTimeout)
	defer cancel()
	if err := t.dispatcher.Drain(ctx); err != nil {
		left, _ := t.dispatcher.Inflight()
		t.logger.Warn().Err(err).Int("left", left).Msg("drain not finished; the next term publishes the remaining events")
	}
}

// Fatal reports whether an operator must act on err: no other term or process would fare
// better. The process then ends with the explanation; see [mongox.Access.Final].
func Fatal(err error) bool {
	if sendErr, ok := errors.AsType[*publish.SendError](err); ok && sendErr.Fault == publish.FaultFatal {
		return true
	}
	for _, target := range []error{watch.ErrRefused, quarantine.ErrRefused, eventstore.ErrIndex, eventstore.ErrFirstID, eventstore.ErrNoOperationTime, errOplogTooShort, ErrSetup, checkpoint.ErrRefused, checkpoint.ErrOtherPipeline, ErrUnreadable, ErrReplaced} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
