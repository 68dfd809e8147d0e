package watch

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
)

// overheadBytes is the size of a change without its document: its token, its key and the
// slices that refer to them.
const overheadBytes = 256

// item is a batch in the queue, with the size that it counts.
type item struct {
	batch Batch
	bytes int64
}

// prefetch is the queue between the reader and the handler, bounded in bytes. A batch
// counts until the handler has finished it.
type prefetch struct {
	limit int64
	room  *semaphore.Weighted
	items chan item
}

// prefetchItems also bounds the number of batches, because a slow stream makes many small
// ones.
const prefetchItems = 1024

func newPrefetch(limit int64) *prefetch {
	return &prefetch{limit: limit, room: semaphore.NewWeighted(limit), items: make(chan item, prefetchItems)}
}

// put waits for room, and calls waiting about every second meanwhile. A batch that is
// larger than the limit fits if it is alone.
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

// mark adds a batch without inserts if there is room. If the handler is behind, the batch
// is dropped, because a later position replaces it.
func (p *prefetch) mark(batch Batch) {
	select {
	case p.items <- item{batch: batch}:
	default:
	}
}

// close says that no further batch follows.
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
