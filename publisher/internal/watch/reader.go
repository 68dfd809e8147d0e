package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// overheadBytes is the size in memory of a change's token and key, and of the slices that
// refer to them.
const overheadBytes = 256

// reader is the state of the reading goroutine.
type reader struct {
	*Watcher
	queue    *Queue[Batch]
	progress *progress
	backoff  poll.Backoff

	position Position
	// ended says that the collection has ended, and that the invalidate comes next. The
	// position does not move meanwhile.
	ended bool
}

// run reads until the stream cannot continue or ctx ends; the error gives the reason.
func (r *reader) run(ctx context.Context) error {
	for {
		phase, err := r.session(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait, err := r.judge(err, phase)
		if err != nil {
			return err
		}
		if err := poll.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// judge gives the wait before the stream is reopened, or the error that ends it.
func (r *reader) judge(cause error, phase Phase) (time.Duration, error) {
	log, counted := r.options.Logger, r.options.Metrics.reopened
	switch {
	case errors.Is(cause, ErrRefused):
		return 0, cause
	case errors.Is(cause, ErrInvalidated):
		return 0, cause
	case errors.Is(cause, errSilent):
		counted.WithLabelValues(causeSilent).Inc()
		log.Warn().Stringer("silence", r.options.Silence).
			Msg("change stream answers but makes no progress; check that a majority of the replica set is up")
		return 0, nil
	}
	class, remedy := Classify(cause, phase)
	switch class {
	case HistoryLost:
		return 0, fmt.Errorf("%w: %w", ErrHistoryLost, cause)
	case Refused:
		return 0, fmt.Errorf("%w: %w; %s", ErrRefused, cause, remedy)
	}
	wait := r.backoff.Next()
	counted.WithLabelValues(causeError).Inc()
	log.Warn().Err(cause).Stringer("wait", wait.Round(time.Millisecond)).
		Msg("change stream interrupted; reopening it where it stopped")
	return wait, nil
}

// session opens the stream, reads it until an error, and returns the error.
func (r *reader) session(ctx context.Context) (Phase, error) {
	r.progress.opening()
	r.ended = false
	var stream ChangeStream
	err := r.ask(ctx, func(ctx context.Context) (err error) {
		stream, err = r.source.Open(ctx, r.position)
		return err
	})
	if err != nil {
		return Opening, err
	}
	defer func() {
		if err := mongox.CloseCursor(ctx, stream); err != nil {
			r.options.Logger.Debug().Err(err).Msg("change stream not closed cleanly")
		}
	}()
	r.options.Logger.Debug().Msg("change stream opened")
	for {
		if err := r.read(ctx, stream); err != nil {
			return Following, err
		}
	}
}

// read reads one chunk of the stream into the queue.
func (r *reader) read(ctx context.Context, stream ChangeStream) error {
	var chunk Chunk
	err := r.ask(ctx, func(ctx context.Context) (err error) {
		chunk, err = stream.Next(ctx)
		return err
	})
	if err != nil {
		return err
	}
	now := time.Now()
	moved, fresh := r.progress.reply(chunk, now)
	r.options.Metrics.replied(chunk)
	if moved {
		r.backoff.Reset()
	}
	if len(chunk.Changes) == 0 {
		return r.idle(chunk, moved, fresh, now)
	}
	return r.take(ctx, chunk)
}

// idle handles a reply without changes: the server found none within its wait.
func (r *reader) idle(chunk Chunk, moved, fresh bool, now time.Time) error {
	switch behind, _ := chunk.behind(); {
	case behind > closeBehind:
		r.options.Metrics.upTo(time.Unix(int64(chunk.Time.T), 0))
	case fresh:
		r.options.Metrics.upTo(now)
	}
	if moved && chunk.Token != nil && !r.ended {
		r.position = Position{Token: chunk.Token}
		// If the handler is behind, a later position replaces this one.
		r.queue.Offer(Batch{Token: chunk.Token})
	}
	if !moved && r.progress.silent(now) {
		return errSilent
	}
	return nil
}

// take queues the inserts of a chunk and counts its other changes.
func (r *reader) take(ctx context.Context, chunk Chunk) error {
	var batch Batch
	var bytes int64
	var wall time.Time // the server's clock at the last change
	var end error
	for _, raw := range chunk.Changes {
		c, err := parseChange(raw)
		if err != nil {
			return fmt.Errorf("%w: read change: %w", ErrRefused, err)
		}
		if replaces(c.operation) {
			r.breach(c)
			r.ended = true
			if c.operation == opInvalidate {
				end = ErrInvalidated
				break
			}
			continue
		}
		if c.time.T != 0 {
			batch.Time, wall = c.time, c.wall
		}
		if c.operation != opInsert {
			r.breach(c)
			continue
		}
		if batch.Inserts == nil {
			batch.Inserts = make([]Insert, 0, len(chunk.Changes))
		}
		batch.Inserts = append(batch.Inserts, Insert{Document: c.document, Token: c.token, Time: c.time})
		batch.Token = c.token
		bytes += int64(len(raw)) + overheadBytes
	}
	if !r.ended {
		batch.Token = chunk.Token
	}
	if !r.ended || len(batch.Inserts) > 0 {
		if err := r.put(ctx, batch, bytes, wall); err != nil {
			return err
		}
	}
	return end
}

// put waits for room in the queue, and adds the batch. The reader's position is then after
// the batch.
func (r *reader) put(ctx context.Context, batch Batch, bytes int64, wall time.Time) error {
	r.options.Metrics.read.Add(float64(len(batch.Inserts)))
	r.progress.hold()
	err := r.queue.Put(ctx, batch, bytes)
	r.progress.release(time.Now())
	if err != nil {
		return err
	}
	if !wall.IsZero() {
		r.options.Metrics.upTo(wall)
	}
	r.position = Position{Token: batch.Token}
	return nil
}

// breach logs and counts a change that breaks immutability.
func (r *reader) breach(c change) {
	r.options.Metrics.mutations.WithLabelValues(c.operation).Inc()
	event := r.breaches.Warn().Str("operation", c.operation)
	if c.documentKey != nil {
		event = event.Stringer("documentKey", c.documentKey)
	}
	event.Msg("stored event changed or removed; events must be immutable, so the change is not published")
}
