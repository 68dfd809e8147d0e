package app

import "context"

const (
	// mostLargeReads is how many batches of a process may hold large events of the event
	// store. An event can take three times 16 MiB while it is read, and as many batches are
	// handled as there are sessions.
	mostLargeReads = 1
	// smallRead is how many bytes of the event store a batch may hold beyond that.
	smallRead = 512 << 10
)

// largeReads bounds the batches of a process that hold large events of the event store. The
// size of an event is known only when it has been read.
type largeReads chan struct{}

// largeRead is the turn of one batch. Its zero value waits for nothing.
type largeRead struct {
	turns largeReads
	held  bool
}

// begin waits until the batch may read an event of any size.
func (r *largeRead) begin(ctx context.Context) error {
	if r.turns == nil || r.held {
		return nil
	}
	select {
	case r.turns <- struct{}{}:
		r.held = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read gives the turn back if the batch holds few bytes.
func (r *largeRead) read(bytes int) {
	if bytes <= smallRead {
		r.end()
	}
}

func (r *largeRead) end() {
	if r.held {
		<-r.turns
		r.held = false
	}
}
