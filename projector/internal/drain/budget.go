package drain

import "sync"

// budget is the memory that the inboxes of all sessions share. Half of it is divided
// evenly: nobody can take a session's share. The other half is lent to those that need
// more, at most half of what is left of it to one, so that a few sessions with much to
// do have most of it and many have equal parts.
type budget struct {
	// share is each session's own.
	share int

	mu sync.Mutex
	// left is what is left to lend; negative if messages were larger than foretold.
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

// came notes messages of a session.
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

// use notes that a session uses used bytes and has borrowed that much for it before; it
// gives how much it has borrowed now.
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
