package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Handle names an added event until it is acknowledged. It is an alias because a list of
// handles passes through the dispatcher as its tickets, and back, without a copy.
type Handle = uint64

// slot is one place in the window: an event, or a mark.
type slot struct {
	// data is the token, or the scan's aggregateId; its array is reused.
	data        []byte
	clusterTime bson.Timestamp
	eventID     int64
	// shared has the values that many consecutive slots have in common.
	shared *shared
	// number counts the slots that were added. before and after are the slots around it.
	number        uint64
	before, after uint32
	kind          kind
	idType        bson.Type
	acked         bool
	mark          bool
}

// shared are the parts of a position that rarely change.
type shared struct {
	collectionUUID string
	lap            *Lap
}

// kind is the kind of a slot's position.
type kind uint8

const (
	kindTime  kind = iota // stream from clusterTime
	kindToken             // stream after data
	kindScan              // scan after data and eventID; clusterTime is the operation time
)

// Watermark finds the last position up to which everything has been acknowledged, while
// acknowledgements arrive in any order. It is safe for concurrent use if Add and Mark are
// called in the order of the stream. Every operation takes amortised constant time, and
// allocates nothing once the window has reached its usual size.
type Watermark struct {
	limit int

	mu sync.Mutex
	// slots holds the window, the slots after the low watermark, as a list from first to
	// last, and the slots of unused. No two neighbours in the list are acknowledged: of
	// those, only the later one can become the low watermark. So acknowledged events take no
	// memory, however long one before them waits.
	slots       []slot
	unused      []uint32
	first, last uint32
	window      int
	added       uint64
	// spare are arrays for reuse.
	spare [][]byte
	// shared belongs to the last filled slot.
	shared *shared
	// low is the last passed slot; moves counts how often slots were passed.
	low    slot
	passed bool
	moves  uint64
	// room is closed when the window is no longer full; nil if nothing waits for that.
	room chan struct{}
}

// none is no slot.
const none = math.MaxUint32

// DefaultWindow bounds the events that wait, for example because a session is stalled. They
// take at most 21 MB and their tokens, of some 100 bytes each.
const DefaultWindow = 1 << 18

// NewWatermark makes a watermark over at most window slots after the low watermark; the
// smallest window is one. A slot is an event that is not acknowledged, or all acknowledged
// events between two of those. So one event can wait while any number of others passes. A
// failover repeats all of these.
func NewWatermark(window int) *Watermark {
	return &Watermark{limit: max(window, 1), first: none, last: none}
}

// Add adds the next event, whose position is p, and copies the data of p. p must not be
// zero. Add waits while the window is full, and fails only with ctx.
func (w *Watermark) Add(ctx context.Context, p Position) (Handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.window >= w.limit {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
			w.mu.Lock()
		case <-ctx.Done():
			w.mu.Lock()
			return 0, fmt.Errorf("wait for acknowledgements: %w", context.Cause(ctx))
		}
	}
	at := w.push(p)
	return w.slots[at].number<<indexBits | Handle(at), nil
}

// indexBits is the part of a handle that is the index of its slot. The rest is the end of
// its number, because slots are reused.
const indexBits = 32

// Ack acknowledges events that the broker or the quarantine has. It ignores handles that
// were acknowledged before.
func (w *Watermark) Ack(handles ...Handle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, handle := range handles {
		at := uint32(handle)
		if int(at) >= len(w.slots) {
			continue
		}
		if s := &w.slots[at]; !s.acked && s.number<<indexBits|Handle(at) == handle {
			s.acked = true
			w.merge(at)
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
	case w.last == none && w.passed && w.low.standsAt(p):
		return
	case w.last != none:
		if last := &w.slots[w.last]; last.mark {
			// No event has been added since the last mark, so that mark moves.
			w.fill(last, p)
			return
		}
	}
	at := w.push(p)
	s := &w.slots[at]
	s.acked, s.mark = true, true
	w.merge(at)
	w.advance()
}

// Low returns the low watermark and how often it has moved; the zero Position and 0 before
// its first move. The caller may keep the position.
func (w *Watermark) Low() (p Position, moves uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.passed {
		return Position{}, 0
	}
	return w.low.position(), w.moves
}

// Window returns how many events and marks were added after the low watermark.
func (w *Watermark) Window() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.passed {
		return int(w.added)
	}
	return int(w.added - w.low.number - 1)
}

// push adds a slot at the end and returns its index.
func (w *Watermark) push(p Position) uint32 {
	var at uint32
	if n := len(w.unused); n > 0 {
		at, w.unused = w.unused[n-1], w.unused[:n-1]
	} else {
		at = uint32(len(w.slots))
		w.slots = append(w.slots, slot{})
	}
	w.slots[at] = slot{number: w.added, before: w.last, after: none}
	if w.last == none {
		w.first = at
	} else {
		w.slots[w.last].after = at
	}
	w.last = at
	w.added++
	w.window++
	w.fill(&w.slots[at], p)
	return at
}

// remove takes a slot out of the window.
func (w *Watermark) remove(at uint32) {
	s := &w.slots[at]
	if s.before == none {
		w.first = s.after
	} else {
		w.slots[s.before].after = s.after
	}
	if s.after == none {
		w.last = s.before
	} else {
		w.slots[s.after].before = s.before
	}
	w.giveBack(s)
	s.acked = true // its handle is not valid any more
	w.unused = append(w.unused, at)
	w.window--
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// fill sets the position of s to a copy of p.
func (w *Watermark) fill(s *slot, p Position) {
	var data []byte
	s.clusterTime, s.eventID, s.idType = p.ClusterTime, 0, 0
	switch {
	case p.Scan.Active():
		s.kind, data = kindScan, p.Scan.AggregateID.Value
		s.clusterTime, s.eventID, s.idType = p.Scan.OperationTime, p.Scan.EventID, p.Scan.AggregateID.Type
	case len(p.Token) > 0:
		s.kind, data = kindToken, p.Token
	default:
		s.kind = kindTime
	}
	if w.shared == nil || w.shared.collectionUUID != p.CollectionUUID || w.shared.lap != p.Scan.Lap {
		w.shared = &shared{collectionUUID: p.CollectionUUID, lap: p.Scan.Lap}
	}
	s.shared = w.shared
	if s.data == nil && len(w.spare) > 0 {
		s.data = w.spare[len(w.spare)-1]
		w.spare = w.spare[:len(w.spare)-1]
	}
	s.data = append(s.data[:0], data...)
}

// merge removes the acknowledged slots around an acknowledged one that can no longer become
// the low watermark: it only ever stops at the last of several.
func (w *Watermark) merge(at uint32) {
	if after := w.slots[at].after; after != none && w.slots[after].acked {
		w.remove(at)
		at = after
	}
	if before := w.slots[at].before; before != none && w.slots[before].acked {
		w.remove(before)
	}
}

func (w *Watermark) giveBack(s *slot) {
	if s.data != nil {
		w.spare = append(w.spare, s.data)
		s.data = nil
	}
}

// advance moves the low watermark over the acknowledged slot at the front.
func (w *Watermark) advance() {
	if w.first == none || !w.slots[w.first].acked {
		return
	}
	w.giveBack(&w.low)
	front := &w.slots[w.first]
	w.low = *front
	front.data = nil
	w.remove(w.first)
	w.passed = true
	w.moves++
}

// standsAt reports whether s has the position p; the cluster time of a token does not
// count.
func (s *slot) standsAt(p Position) bool {
	if s.shared.collectionUUID != p.CollectionUUID || s.shared.lap != p.Scan.Lap {
		return false
	}
	switch s.kind {
	case kindToken:
		return bytes.Equal(s.data, p.Token) && !p.Scan.Active()
	case kindScan:
		return s.clusterTime == p.Scan.OperationTime && s.eventID == p.Scan.EventID &&
			s.idType == p.Scan.AggregateID.Type && bytes.Equal(s.data, p.Scan.AggregateID.Value)
	case kindTime:
	}
	return s.clusterTime == p.ClusterTime && len(p.Token) == 0 && !p.Scan.Active()
}

// position returns a copy of the slot's position.
func (s *slot) position() Position {
	data := append([]byte(nil), s.data...)
	switch s.kind {
	case kindToken:
		return Position{Token: data, ClusterTime: s.clusterTime, CollectionUUID: s.shared.collectionUUID}
	case kindScan:
		return Position{Scan: Scan{
			OperationTime: s.clusterTime,
			AggregateID:   bson.RawValue{Type: s.idType, Value: data},
			EventID:       s.eventID,
			Lap:           s.shared.lap,
		}, CollectionUUID: s.shared.collectionUUID}
	case kindTime:
	}
	return Position{ClusterTime: s.clusterTime, CollectionUUID: s.shared.collectionUUID}
}
