package drain

import "sync"

// budget is the memory that the inboxes of all sessions share. Half of it is divided
// evenly: no session can take another session's share. The other half is lent to sessions
// that need more. One session can borrow at most half of the rest, so that a few busy
// sessions have most of it, and many busy sessions have equal parts.
type budget struct {
	// share is each session's own.
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

// lent is the forecast of sizes for a new session.
func (b *budget) lent() sizes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sizes.lent()
}

// came notes received messages of a session.
func (b *budget) came(batch []*Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range batch {
		b.sizes.add(d.size + messageOverhead)
	}
}

// limit is how much a session may use that has borrowed that much already.
func (b *budget) limit(borrowed int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.share + max(b.left+borrowed, 0)/2
}

// use notes that a session uses used bytes and had borrowed that much before. It returns
// how much the session has borrowed now.
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
