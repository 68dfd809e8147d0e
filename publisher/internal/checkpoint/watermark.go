package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Handle names an added event until it is acknowledged. It is an alias because a list of
// handles passes through the dispatcher as its tickets, and back, without a copy.
type Handle = uint64

// slot is one place in the window: an event, or a mark.
type slot struct {
	// data is the token, or the scan's aggregateId; its array is reused. It is nil if the
	// position can no longer become the low watermark, because the next event is
	// acknowledged too.
	data        []byte
	clusterTime bson.Timestamp
	eventID     int64
	// shared has the values that many consecutive slots have in common.
	shared *shared
	kind   kind
	idType bson.Type
	acked  bool
	mark   bool
	// seam marks the boundary between a scan and a stream. It stays set when the mark
	// moves.
	seam bool
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
	// ring holds the window, the slots after the low watermark. first is the sequence
	// number of the oldest slot, next that of the next one. A slot's index is its sequence
	// number modulo len(ring), which is a power of two.
	ring        []slot
	first, next uint64
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
	// due notifies the saver when many events have been passed, or the seam between a scan
	// and a stream.
	threshold uint64
	told      uint64
	due       chan struct{}
}

// smallestRing is the initial length of the ring.
const smallestRing = 1024

// DefaultWindow is large enough that a stalled session stalls the stream only after 13 s at
// 20,000 events/s. It takes at most 15 MB, plus the tokens of the events in flight.
const DefaultWindow = 1 << 18

// NewWatermark makes a watermark over at most window events after the low watermark; the
// smallest window is one. One unacknowledged event keeps all later ones in the window,
// acknowledged or not. So window bounds the memory (56 bytes for each event, and a token
// for each that waits) and the events that a failover repeats.
func NewWatermark(window int) *Watermark {
	window = max(window, 1)
	length := min(ringLength(window), smallestRing)
	return &Watermark{limit: window, ring: make([]slot, length), due: make(chan struct{}, 1)}
}

// ringLength returns the smallest power of two that is not less than n.
func ringLength(n int) int { return 1 << bits.Len(uint(n-1)) }

// Add adds the next event, whose position is p, and copies the data of p. p must not be
// zero. Add waits while the window is full, and fails only with ctx.
func (w *Watermark) Add(ctx context.Context, p Position) (Handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.window() >= w.limit {
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
	return w.push(p), nil
}

// Ack acknowledges events that the broker or the quarantine has. It ignores handles that
// were acknowledged before.
func (w *Watermark) Ack(handles ...Handle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seq := range handles {
		if seq < w.first || seq >= w.next {
			continue
		}
		s := w.at(seq)
		if s.acked {
			continue
		}
		s.acked = true
		w.forget(seq)
	}
	w.advance()
}

// Mark records that everything up to p has been added. p is the post-batch resume token of
// an exhausted batch, or the time at which the stream starts after a scan. The low
// watermark reaches p when everything that was added before is acknowledged. Mark copies
// the data of p, which must not be zero. A mark at the position of the low watermark
// changes nothing, because an idle stream repeats its token. A mark at which a scan begins
// or ends is saved as soon as it is reached.
func (w *Watermark) Mark(p Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.next == w.first && w.passed && w.low.standsAt(p):
		return
	case w.next > w.first:
		if last := w.at(w.next - 1); last.mark {
			// No event has been added since the last mark, so that mark moves.
			w.fill(last, p)
			last.seam = last.seam || p.isSeam()
			return
		}
	}
	seq := w.push(p)
	s := w.at(seq)
	s.acked, s.mark, s.seam = true, true, p.isSeam()
	w.forget(seq)
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
	return w.window()
}

func (w *Watermark) window() int { return int(w.next - w.first) }

func (w *Watermark) at(seq uint64) *slot { return &w.ring[seq&uint64(len(w.ring)-1)] }

// push adds a slot at the end. If the ring is full, push doubles its length.
func (w *Watermark) push(p Position) uint64 {
	if w.window() == len(w.ring) {
		longer := make([]slot, 2*len(w.ring))
		for seq := w.first; seq < w.next; seq++ {
			longer[seq&uint64(len(longer)-1)] = *w.at(seq)
		}
		w.ring = longer
	}
	seq := w.next
	w.next++
	s := w.at(seq)
	*s = slot{}
	w.fill(s, p)
	return seq
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

// forget releases the data of acknowledged slots around seq that can no longer become the
// low watermark: it only ever stops at the last of several acknowledged slots.
func (w *Watermark) forget(seq uint64) {
	if seq > w.first {
		if before := w.at(seq - 1); before.acked {
			w.giveBack(before)
		}
	}
	if seq+1 < w.next && w.at(seq+1).acked {
		w.giveBack(w.at(seq))
	}
}

func (w *Watermark) giveBack(s *slot) {
	if s.data != nil {
		w.spare = append(w.spare, s.data)
		s.data = nil
	}
}

// advance moves the low watermark over acknowledged slots.
func (w *Watermark) advance() {
	begun, seam := w.first, false
	for w.first < w.next && w.at(w.first).acked {
		seam = seam || w.at(w.first).seam
		w.first++
	}
	if w.first == begun {
		return
	}
	w.giveBack(&w.low)
	last := w.at(w.first - 1)
	w.low = *last
	last.data = nil
	w.passed = true
	w.moves++
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
	if w.threshold > 0 && (seam || w.first-w.told >= w.threshold) {
		w.told = w.first
		select {
		case w.due <- struct{}{}:
		default:
		}
	}
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

// notifyEvery returns a channel that receives whenever n more events have been passed, and
// when the seam between a scan and a stream has been passed. A watermark has only one
// saver.
func (w *Watermark) notifyEvery(n int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.threshold = uint64(max(n, 1))
	w.told = w.first
	return w.due
}
