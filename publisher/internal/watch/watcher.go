package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// Handler handles the batches of a stream, in order and one at a time. If it blocks,
// reading stops (back-pressure). Its error ends the stream.
type Handler func(ctx context.Context, batch Batch) error

// Options configure a watcher. Zero values mean the defaults.
type Options struct {
	// PrefetchBytes bounds what is read ahead of the handler. In addition there is
	// the driver's reply of at most 16 MiB. Default 16 MiB.
	PrefetchBytes int64
	// Silence is how long the position of a stream that has caught up may stay the same,
	// and how long the server may leave pings unanswered while the stream catches up. It
	// must exceed the 10 s in which an idle replica set writes to its oplog. Default 60 s.
	Silence time.Duration
	// CatchUp is how long a request may take while the stream catches up and the server
	// answers pings. It doubles each time that it was too short. Default 30 min.
	CatchUp time.Duration
	// Beat is called about every second while the stream is alive.
	Beat func()
	// Metrics are not exported by default.
	Metrics *Metrics
	// Logger is silent by default.
	Logger zerolog.Logger
}

const (
	backoffFirst = 100 * time.Millisecond
	backoffMax   = 15 * time.Second
	beatInterval = time.Second
	// prefetchBatches bounds the batches that are read ahead, because a slow stream makes many
	// small ones.
	prefetchBatches = 1024
)

// Watcher reads the change stream of one term. Make it with [New].
type Watcher struct {
	source  Source
	options Options
	// breaches logs changes that break immutability. It samples them.
	breaches zerolog.Logger
}

// New makes a watcher on source.
func New(source Source, options Options) *Watcher {
	if options.PrefetchBytes <= 0 {
		options.PrefetchBytes = 16 << 20
	}
	if options.Silence <= 0 {
		options.Silence = time.Minute
	}
	if options.CatchUp <= 0 {
		options.CatchUp = 30 * time.Minute
	}
	if options.Beat == nil {
		options.Beat = func() {}
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics(nil)
	}
	return &Watcher{
		source:   source,
		options:  options,
		breaches: options.Logger.Sample(&zerolog.BurstSampler{Burst: 10, Period: time.Minute}),
	}
}

// Run passes the stream from that position to handler until ctx ends (the error is its
// cause), the handler fails, or the stream cannot continue: [ErrHistoryLost],
// [ErrInvalidated] or [ErrRefused]. In these three cases everything that was read before
// has been handled. When Run returns, all its goroutines have ended.
func (w *Watcher) Run(ctx context.Context, from Position, handler Handler) error {
	defer w.options.Metrics.setCaughtUp(false)
	progress := newProgress(w.options.Silence, w.options.CatchUp, time.Now())
	w.options.Metrics.upTo(startOf(from))
	queue := NewQueue[Batch](prefetchBatches, w.options.PrefetchBytes)

	group, groupCtx := errgroup.WithContext(ctx)
	beats, stopBeats := context.WithCancel(groupCtx)
	var ended error
	group.Go(func() error {
		defer queue.Close()
		r := reader{Watcher: w, queue: queue, progress: progress, position: from,
			backoff: poll.Backoff{First: backoffFirst, Max: backoffMax}}
		ended = r.run(groupCtx)
		// The reading has ended. The handler may take any time for the rest.
		progress.hold()
		return nil
	})
	group.Go(func() error {
		defer stopBeats()
		return queue.Handle(groupCtx, func(ctx context.Context, batch Batch) error {
			if err := handler(ctx, batch); err != nil {
				return fmt.Errorf("handle changes: %w", err)
			}
			return nil
		})
	})
	group.Go(func() error {
		w.beat(beats, progress)
		return nil
	})
	err := group.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	default:
		return ended
	}
}

// TimeOf is the cluster time up to which everything is read at a position: that of the
// token or, if it does not show its time, of the last change before it. It is zero if the
// position has neither.
func TimeOf(p Position) time.Time {
	at := TokenTime(p.Token)
	if at.IsZero() {
		at = p.Time
	}
	if at.IsZero() {
		return time.Time{}
	}
	return time.Unix(int64(at.T), 0)
}

// startOf is the time up to which everything counts as read before the first reply.
func startOf(from Position) time.Time {
	if at := TimeOf(from); !at.IsZero() {
		return at
	}
	return time.Now()
}

// beat sends heartbeats while the stream is alive, and reports when the stream has
// caught up or falls behind.
func (w *Watcher) beat(ctx context.Context, progress *progress) {
	since, caughtUp := time.Now(), false
	poll.Every(ctx, beatInterval, func() {
		now := time.Now()
		if progress.alive(now) {
			w.options.Beat()
		}
		if is := progress.caughtUp(now); is != caughtUp {
			w.report(is, now.Sub(since))
			since, caughtUp = now, is
		}
	})
}

// report logs and records that the stream has caught up, after the given time, or has
// fallen behind.
func (w *Watcher) report(caughtUp bool, after time.Duration) {
	w.options.Metrics.setCaughtUp(caughtUp)
	lag := w.options.Metrics.Lag().Round(time.Millisecond)
	if caughtUp {
		w.options.Logger.Info().Stringer("lag", lag).Stringer("took", after.Round(time.Second)).Msg("change stream has caught up")
		return
	}
	w.options.Logger.Warn().Stringer("lag", lag).Msg("change stream has fallen behind; catching up")
}
