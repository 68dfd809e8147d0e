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
	// share is how many bytes the inbox may hold.
	share int
	// all are the messages of all sessions, and own those of this one.
	all, own *sizes

	mu    sync.Mutex
	queue []*Delivery
	// bytes is the size of the queue, with the overhead of each message.
	bytes int
	// credit is how many messages the broker may still send.
	credit int
	// filled and emptied wake the two sides. They hold one token, so a wake-up is not
	// lost while the other side is busy.
	filled, emptied chan struct{}
}

func newInbox(capacity, share int, all *sizes) *inbox {
	return &inbox{
		capacity: capacity, share: share, all: all, own: all.first(),
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
	n := b.own.fit(b.share-b.bytes, min(b.capacity-len(b.queue), bound))
	if len(b.queue) == 0 {
		// One message always fits, whatever its size.
		n = max(n, 1)
	}
	b.credit = max(n, b.credit)
	return b.credit
}

// put stores received deliveries. They use up credit.
func (b *inbox) put(batch []*Delivery) {
	if len(batch) == 0 {
		return
	}
	b.all.add(batch)
	b.own.add(batch)
	b.mu.Lock()
	b.queue = append(b.queue, batch...)
	b.credit = max(b.credit-len(batch), 0)
	for _, d := range batch {
		b.bytes += d.size + messageOverhead
	}
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
