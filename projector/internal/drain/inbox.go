package drain

import (
	"context"
	"sync"
)

// inbox is the queue between a session's pump and its processing. It is bounded by count
// and by bytes. Messages in the queue count with their size, messages that the broker may
// still send with a forecast.
type inbox struct {
	capacity int
	budget   *budget

	mu    sync.Mutex
	queue []*Delivery
	// bytes is the size of the queue, with the overhead of each message.
	bytes int
	// credit is how many messages the broker may still send.
	credit int
	// borrowed is the part of the shared budget that the inbox uses.
	borrowed int
	sizes    sizes
	closed   bool
	// filled and emptied wake the two sides. They hold one token, so a wake-up is not
	// lost while the other side is busy.
	filled, emptied chan struct{}
}

func newInbox(capacity int, b *budget) *inbox {
	return &inbox{
		capacity: capacity, budget: b, sizes: b.lent(),
		filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1),
	}
}

// ask waits until there is room for at least one more delivery, and returns how many to
// request from the broker, up to limit; 0 if ctx has ended. If the broker may still send
// some, ask does not wait, because the pump must receive them.
func (b *inbox) ask(ctx context.Context, limit int) int {
	for {
		if n := b.grant(limit); n > 0 {
			return n
		}
		select {
		case <-b.emptied:
		case <-ctx.Done():
			return 0
		}
	}
}

// grant adds credit up to the room left.
func (b *inbox) grant(bound int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.sizes.fit(b.budget.limit(b.borrowed)-b.bytes, min(b.capacity-len(b.queue), bound))
	if len(b.queue) == 0 {
		// One message always fits, whatever its size.
		n = max(n, 1)
	}
	b.credit = max(n, b.credit)
	b.account()
	return b.credit
}

// account updates the shared budget. The caller holds the lock.
func (b *inbox) account() {
	used := b.bytes + b.sizes.sum(b.credit)
	if b.closed {
		used = 0
	}
	b.borrowed = b.budget.use(used, b.borrowed)
}

// put stores received deliveries. They use up credit.
func (b *inbox) put(batch []*Delivery) {
	if len(batch) == 0 {
		return
	}
	b.budget.received(batch)
	b.mu.Lock()
	b.queue = append(b.queue, batch...)
	b.credit = max(b.credit-len(batch), 0)
	for _, d := range batch {
		b.bytes += d.size + messageOverhead
		b.sizes.add(d.size + messageOverhead)
	}
	b.account()
	b.mu.Unlock()
	wake(b.filled)
}

// take removes deliveries, in order of arrival, until room is used up. The last one may
// exceed it in bytes.
func (b *inbox) take(room load) []*Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.queue) && !room.none() {
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
		b.bytes -= d.size + messageOverhead
	}
	b.account()
	wake(b.emptied)
	return taken
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// close returns the inbox's part of the shared budget. Deliveries that arrive later return
// to the broker with the session.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.account()
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
