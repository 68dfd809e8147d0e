package watch

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// overheadBytes is what a change costs beside its document: its token, its key
// and the slices that point to them.
const overheadBytes = 256

// item is a batch in the queue, and what it counts.
type item struct {
	batch Batch
	bytes int64
}

// prefetch is the queue between the one reader and the one handler, bounded in
// bytes. A batch counts until it has been handled, not until it was taken.
type prefetch struct {
	limit int64
	room  *semaphore.Weighted
	items chan item
}

// prefetchItems bounds the queue in batches too, of which a slow stream makes
// many small ones.
const prefetchItems = 1024

func newPrefetch(limit int64) *prefetch {
	return &prefetch{limit: limit, room: semaphore.NewWeighted(limit), items: make(chan item, prefetchItems)}
}

// put waits for room and calls waiting about every second meanwhile. A batch that
// is larger than the limit passes alone.
func (p *prefetch) put(ctx context.Context, batch Batch, bytes int64, waiting func()) error {
	bytes = min(bytes, p.limit)
	for !p.room.TryAcquire(bytes) {
		waiting()
		short, cancel := context.WithTimeout(ctx, time.Second)
		err := p.room.Acquire(short, bytes)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for {
		select {
		case p.items <- item{batch, bytes}:
			return nil
		default:
		}
		waiting()
		timer := time.NewTimer(time.Second)
		select {
		case p.items <- item{batch, bytes}:
			timer.Stop()
			return nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// mark puts a batch without inserts where there is a place. It is left out where
// the handler is behind: a later position makes it superfluous.
func (p *prefetch) mark(batch Batch) {
	select {
	case p.items <- item{batch: batch}:
	default:
	}
}

// close says that nothing follows.
func (p *prefetch) close() { close(p.items) }

// handle calls handler for every batch until the queue is closed and empty, ctx
// ends, or the handler fails.
func (p *prefetch) handle(ctx context.Context, handler Handler) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case next, open := <-p.items:
			if !open {
				return nil
			}
			if err := handler(ctx, next.batch); err != nil {
				return fmt.Errorf("handle changes: %w", err)
			}
			if next.bytes > 0 {
				p.room.Release(next.bytes)
			}
		}
	}
}
