package checkpoint

import (
	"bytes"
	"sync"
)

// Handle names an added event until it is acknowledged. It is an alias because a list of
// handles passes through the dispatcher as its tickets, and back, without a copy.
type Handle = uint64

// slot is one place in the window: an event, or a mark. Slots are reused with their data.
type slot struct {
	position Position
	// number counts the slots that were added. before and after are the slots around it.
	number        uint64
	before, after *slot
	acked         bool
	mark          bool
}

// Watermark finds the last position up to which everything has been acknowledged, while
// acknowledgements arrive in any order. It is safe for concurrent use if Add and Mark are
// called in the order of the stream.
//
// One event can wait while any number of others passes. A failover repeats all of these.
type Watermark struct {
	mu sync.Mutex
	// first to last is the window, the list of the slots after the low watermark. No two
	// neighbours are acknowledged: of those, only the later one can become the low watermark.
	// So the window has at most two slots for each event that is not acknowledged.
	first, last *slot
	// waiting are the events that are not acknowledged.
	waiting map[Handle]*slot
	added   uint64
	// unused is a list of slots for reuse.
	unused *slot
	// low is the last passed slot, nil if there is none; moves counts how often slots were
	// passed.
	low   *slot
	moves uint64
}

// NewWatermark makes an empty watermark.
func NewWatermark() *Watermark { return &Watermark{waiting: make(map[Handle]*slot)} }

// Add adds the next event, whose position is p, and copies the data of p. p must not be
// zero.
func (w *Watermark) Add(p Position) Handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.push(p)
	w.waiting[s.number] = s
	return s.number
}

// Ack acknowledges events that the broker or the quarantine has. It ignores handles that
// were acknowledged before.
func (w *Watermark) Ack(handles ...Handle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, handle := range handles {
		if s := w.waiting[handle]; s != nil {
			delete(w.waiting, handle)
			s.acked = true
			w.merge(s)
		}
	}
	w.advance()
}

// Mark records that everything up to p has been added. p is the post-batch resume token of
// an exhausted batch, or the time at which the stream starts after a scan. The low
// watermark reaches p when everything that was added before is acknowledged. Mark copies
// the data of p, which must not be zero. A mark at the position of the low watermark
// changes nothing, because an idle stream repeats its token.
func (w *Watermark) Mark(p Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.last == nil && w.low != nil && w.low.position.same(p):
		return
	case w.last != nil && w.last.mark:
		// No event has been added since the last mark, so that mark moves.
		w.last.set(p)
		return
	}
	s := w.push(p)
	s.acked, s.mark = true, true
	w.merge(s)
	w.advance()
}

// Low returns the low watermark and how often it has moved; the zero Position and 0 before
// its first move. The caller may keep the position.
func (w *Watermark) Low() (p Position, moves uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.low == nil {
		return Position{}, 0
	}
	var low slot
	low.set(w.low.position)
	return low.position, w.moves
}

// Window returns how many events and marks were added after the low watermark.
func (w *Watermark) Window() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.low == nil {
		return int(w.added)
	}
	return int(w.added - w.low.number - 1)
}

// push adds a slot at the end.
func (w *Watermark) push(p Position) *slot {
	s := w.unused
	if s == nil {
		s = new(slot)
	} else {
		w.unused = s.after
	}
	*s = slot{position: s.position, number: w.added, before: w.last}
	s.set(p)
	if w.last == nil {
		w.first = s
	} else {
		w.last.after = s
	}
	w.last = s
	w.added++
	return s
}

// remove takes a slot out of the window.
func (w *Watermark) remove(s *slot) {
	if s.before == nil {
		w.first = s.after
	} else {
		s.before.after = s.after
	}
	if s.after == nil {
		w.last = s.before
	} else {
		s.after.before = s.before
	}
	s.before, s.after = nil, nil
}

// drop removes a slot from the window that cannot become the low watermark any more.
func (w *Watermark) drop(s *slot) {
	w.remove(s)
	w.reuse(s)
}

func (w *Watermark) reuse(s *slot) { s.after, w.unused = w.unused, s }

// merge removes the acknowledged slots around an acknowledged one that can no longer become
// the low watermark: it only ever stops at the last of several.
func (w *Watermark) merge(s *slot) {
	if after := s.after; after != nil && after.acked {
		w.drop(s)
		s = after
	}
	if before := s.before; before != nil && before.acked {
		w.drop(before)
	}
}

// advance moves the low watermark over the acknowledged slot at the front.
func (w *Watermark) advance() {
	if w.first == nil || !w.first.acked {
		return
	}
	if w.low != nil {
		w.reuse(w.low)
	}
	w.low = w.first
	w.remove(w.low)
	w.moves++
}

// set sets the position to a copy of p.
func (s *slot) set(p Position) {
	token, value := s.position.Token, s.position.Scan.AggregateID.Value
	s.position = p
	s.position.Token = append(token[:0], p.Token...)
	s.position.Scan.AggregateID.Value = append(value[:0], p.Scan.AggregateID.Value...)
	s.position.Begin = false
}

// same reports whether both are the same position; the cluster time of a token does not
// count.
func (p Position) same(q Position) bool {
	return p.CollectionUUID == q.CollectionUUID && bytes.Equal(p.Token, q.Token) && (len(p.Token) > 0 || p.ClusterTime == q.ClusterTime) &&
		p.Scan.OperationTime == q.Scan.OperationTime && p.Scan.AggregateID.Equal(q.Scan.AggregateID) &&
		p.Scan.EventID == q.Scan.EventID && bytes.Equal(p.Scan.Token, q.Scan.Token)
}
