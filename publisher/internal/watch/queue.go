package watch

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Queue is between a goroutine that reads ahead and the one that handles what it has read. It is
// bounded in items and in bytes. The bytes of an item count until the handler has finished it.
// One goroutine puts items, and one handles them. Make it with [NewQueue].
type Queue[T any] struct {
	bytes int64
	room  *semaphore.Weighted
	items chan sized[T]
}

// sized is an item with the bytes that it counts.
type sized[T any] struct {
	item  T
	bytes int64
}

// NewQueue makes a queue with room for that many items and bytes.
func NewQueue[T any](items int, bytes int64) *Queue[T] {
	return &Queue[T]{bytes: bytes, room: semaphore.NewWeighted(bytes), items: make(chan sized[T], items)}
}

// Put waits for room and adds an item. An item that is larger than the queue fits if it is
// alone. The error is the cause of ctx.
func (q *Queue[T]) Put(ctx context.Context, item T, bytes int64) error {
	bytes = min(bytes, q.bytes)
	if q.room.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	select {
	case q.items <- sized[T]{item, bytes}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Offer adds an item if there is room, and otherwise drops it. The item counts no bytes.
func (q *Queue[T]) Offer(item T) {
	select {
	case q.items <- sized[T]{item: item}:
	default:
	}
}

// Close says that no further item follows.
func (q *Queue[T]) Close() { close(q.items) }

// Handle calls handler for every item until the queue is closed and empty, ctx ends (the error
// is its cause), or the handler fails.
func (q *Queue[T]) Handle(ctx context.Context, handler func(context.Context, T) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case next, open := <-q.items:
			if !open {
				return nil
			}
			if err := handler(ctx, next.item); err != nil {
				return err
			}
			q.room.Release(next.bytes)
		}
	}
}
