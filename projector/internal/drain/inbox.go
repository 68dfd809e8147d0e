package drain

import (
	"context"
	"sync"
	"sync/atomic"
)

// inbox stands between a session's pump and its processing: bounded by count and,
// by the sizes seen so far, by bytes.
type inbox struct {
	mu       sync.Mutex
	queue    []*Delivery
	bytes    int
	capacity int
	budget   int
	sizes    *sizeEstimate
	// filled and emptied wake the two sides. They hold one token: a wake-up that
	// nobody waits for is not lost.
	filled, emptied chan struct{}
}

func newInbox(capacity, budget int, sizes *sizeEstimate) *inbox {
	return &inbox{
		capacity: capacity, budget: budget, sizes: sizes,
		filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1),
	}
}

// room waits until there is room for at least one more delivery and says for how
// many; 0 where ctx has ended. Where credit is out, there is no waiting: what comes
// has to be taken.
func (b *inbox) room(ctx context.Context, credit int) int {
	for {
		if n := max(b.free(), credit); n > 0 {
			return n
		}
		select {
		case <-b.emptied:
		case <-ctx.Done():
			return 0
		}
	}
}

func (b *inbox) free() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	byCount := b.capacity - len(b.queue)
	byBytes := (b.budget - b.bytes) / b.sizes.get()
	if len(b.queue) == 0 {
		// One message fits always, however large.
		byBytes = max(byBytes, 1)
	}
	return max(min(byCount, byBytes), 0)
}

func (b *inbox) put(batch []*Delivery) {
	if len(batch) == 0 {
		return
	}
	b.mu.Lock()
	b.queue = append(b.queue, batch...)
	for _, d := range batch {
		b.bytes += d.size
		b.sizes.add(d.size)
	}
	b.mu.Unlock()
	wake(b.filled)
}

// take removes deliveries in the order in which they came, until there is no room
// for more: the last one may exceed it in bytes.
func (b *inbox) take(room load) []*Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.queue) && room.count > 0 && room.bytes > 0 {
		room.sub(load{1, b.queue[n].size})
		n++
	}
	if n == 0 {
		return nil
	}
	taken := b.queue[:n:n]
	b.queue = b.queue[n:]
	if len(b.queue) == 0 {
		b.queue = nil
	}
	for _, d := range taken {
		b.bytes -= d.size
	}
	wake(b.emptied)
	return taken
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sizeEstimate foretells the size of the next message body from those that came:
// it follows a larger one at once and smaller ones slowly, so that the budget
// errs on the safe side. All sessions share one. The zero value is ready.
type sizeEstimate struct {
	bytes atomic.Int64
}

// The first guess, which is soon corrected, and a part of every message that a
// body's size leaves out.
const (
	firstSizeGuess  = 64 << 10
	messageOverhead = 1 << 10
)

func (e *sizeEstimate) get() int {
	if n := int(e.bytes.Load()); n > 0 {
		return n
	}
	return firstSizeGuess
}

func (e *sizeEstimate) add(size int) {
	size += messageOverhead
	old := e.bytes.Load()
	next := old - old/512 + int64(size)/512
	if int64(size) > old {
		next = int64(size)
	}
	// A lost update is one sample of many.
	e.bytes.CompareAndSwap(old, next)
}
