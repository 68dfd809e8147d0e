package app

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"
)

const (
	// maxRead is how many bytes of the event store the batches of a process may hold beyond
	// smallRead each. While an event is read, it can take three times its size.
	maxRead = 24 << 20
	// largestEvent is taken before an event of unknown size is read.
	largestEvent = 16 << 20
	// smallRead is how many bytes of the event store each batch may hold without a wait.
	smallRead = 512 << 10
)

// errReadsFull says that a batch holds bytes and cannot get more now. It must not wait for
// more, because batches that hold bytes would then wait for each other.
var errReadsFull = errors.New("no memory for another event of the event store")

// largeRead counts the bytes of the event store that one batch holds.
type largeRead struct {
	// all has maxRead bytes for the batches of the process; nil bounds nothing.
	all *semaphore.Weighted
	// bytes is how much the batch holds, and taken how much of it is taken from all.
	bytes, taken int
}

// begin waits until the batch may read an event of any size.
func (r *largeRead) begin(ctx context.Context) error {
	switch {
	case r.all == nil:
		return nil
	case r.taken > 0:
		if !r.all.TryAcquire(largestEvent) {
			return errReadsFull
		}
	default:
		if err := r.all.Acquire(ctx, largestEvent); err != nil {
			return context.Cause(ctx)
		}
	}
	r.taken += largestEvent
	return nil
}

// read adds bytes that were read, and gives back what the batch does not hold.
func (r *largeRead) read(bytes int) {
	r.bytes += bytes
	want := max(0, r.bytes-smallRead)
	switch {
	case r.all == nil:
	case want < r.taken:
		r.all.Release(int64(r.taken - want))
		r.taken = want
	case r.all.TryAcquire(int64(want - r.taken)):
		r.taken = want
	}
}

// full reports whether the batch must not read another event.
func (r *largeRead) full() bool {
	return r.bytes >= maxClaimBytes || r.all != nil && r.bytes > r.taken+smallRead
}

func (r *largeRead) end() {
	if r.taken > 0 {
		r.all.Release(int64(r.taken))
	}
}
