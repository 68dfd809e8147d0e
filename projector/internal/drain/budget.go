package drain

import "sync"

// budget is the memory that the inboxes of all sessions share. Half of it is divided
// evenly: no session can take another session's share. The other half is lent to sessions
// that need more. One session can borrow at most half of the rest, so that a few busy
// sessions have most of it, and many busy sessions have equal parts.
type budget struct {
	// share is the part that belongs to each session.
	share int

	mu sync.Mutex
	// left is how much can still be lent; negative if messages were larger than forecast.
	left int
	// sizes are the messages of all sessions.
	sizes sizes
}

func newBudget(bytes, sessions int) *budget {
	share := max(bytes/2/sessions, 1)
	return &budget{share: share, left: max(bytes-share*sessions, 0)}
}

// lent is the first forecast for a new session.
func (b *budget) lent() sizes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sizes.lent()
}

// received records received messages of a session.
func (b *budget) received(batch []*Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range batch {
		b.sizes.add(d.size + messageOverhead)
	}
}

// limit is how many bytes a session that has borrowed that much may use.
func (b *budget) limit(borrowed int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.share + max(b.left+borrowed, 0)/2
}

// use records that a session uses used bytes and had borrowed that much before. It returns
// how much the session borrows now.
func (b *budget) use(used, borrowed int) int {
	now := max(used-b.share, 0)
	if now == borrowed {
		return now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += borrowed - now
	return now
}
