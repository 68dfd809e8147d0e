package readable

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Limit says when a [Window] trips. A zero field means its default.
type Limit struct {
	// Share is the largest share of recent events that may be unreadable, above 0. At
	// 1 or more the window never trips and holds nothing back.
	Share float64
	// Events is how many recent events are counted. Default 100.
	Events int
	// Minimum is how many aggregates must have unreadable events before a window that
	// is not full can trip. Default 10.
	Minimum int
	// Hold is how long an event is held back when too few events follow to decide.
	// Default 10 s.
	Hold time.Duration
	// Held and Bytes bound the events that are held back; the last one may exceed them.
	// Default 1000 and 16 MiB. The checkpoint's watermark must have room for many more.
	Held  int
	Bytes int64
}

func (l Limit) withDefaults() Limit {
	if l.Share <= 0 {
		l.Share = 0.5
	}
	if l.Events <= 0 {
		l.Events = 100
	}
	if l.Minimum <= 0 {
		l.Minimum = 10
	}
	if l.Hold <= 0 {
		l.Hold = 10 * time.Second
	}
	if l.Held <= 0 {
		l.Held = 1000
	}
	if l.Bytes <= 0 {
		l.Bytes = 16 << 20
	}
	return l
}

// Off reports whether the limit switches the checks off.
func (l Limit) Off() bool { return l.Share >= 1 }

// Window decides about the unreadable events of one term: see the package's doc. Make it
// with [NewWindow]. Only one goroutine may use it. The caller keeps the held events, in
// their order.
type Window struct {
	fields event.Fields
	limit  Limit

	// outcomes is a ring of the counted events. An unreadable event is its aggregate, a
	// readable one readableEvent.
	outcomes []uint64
	next     int
	// unreadable has the aggregates in outcomes.
	unreadable map[uint64]struct{}
	// good and bad count all events that were ever put into outcomes.
	good, bad int

	held      []held
	heldBytes int64
	reasons   breakdown
	seed      maphash.Seed
	nameless  uint64
}

// held is an unreadable event that waits for a decision.
type held struct {
	// good and bad are the window's counts before the event.
	good, bad int
	bytes     int64
	since     time.Time
}

const readableEvent = 0

// NewWindow makes an empty window. fields are the configured names.
func NewWindow(fields event.Fields, limit Limit) *Window {
	return &Window{
		fields: fields, limit: limit.withDefaults(),
		unreadable: make(map[uint64]struct{}), seed: maphash.MakeSeed(),
	}
}

// Readable counts n events that can be read.
func (w *Window) Readable(n int) {
	w.good += n
	for range min(n, w.limit.Events) {
		w.count(readableEvent)
	}
}

// Forgive forgets every counted event and returns how many are held; they may be put into
// the quarantine now.
func (w *Window) Forgive() (release int) {
	w.outcomes, w.next = w.outcomes[:0], 0
	clear(w.unreadable)
	return w.release(len(w.held))
}

// Off reports whether the window never trips.
func (w *Window) Off() bool { return w.limit.Off() }

// Unreadable counts and holds an event that cannot be read because of err.
func (w *Window) Unreadable(ev *event.Event, err error, now time.Time) {
	w.held = append(w.held, held{good: w.good, bad: w.bad, bytes: int64(len(ev.Document)), since: now})
	w.heldBytes += int64(len(ev.Document))
	w.reasons.add(ev.Document, err)
	aggregate := w.aggregate(ev)
	if _, counted := w.unreadable[aggregate]; counted {
		return
	}
	w.count(aggregate)
	w.unreadable[aggregate] = struct{}{}
	w.bad++
}

// Decide returns how many of the oldest held events may be put into the quarantine now, and
// forgets those. [ErrUnreadable] means that none of the held events may ever be, and that
// the term must end.
func (w *Window) Decide(now time.Time) (release int, err error) {
	if w.limit.Off() {
		return w.release(len(w.held)), nil
	}
	if len(w.unreadable) > w.most() {
		return 0, w.trip(len(w.unreadable), len(w.outcomes))
	}
	settled := 0
	for settled < len(w.held) && w.good-w.held[settled].good >= w.limit.Events-w.most() {
		settled++
	}
	w.release(settled)
	if len(w.held) == 0 {
		return settled, nil
	}
	// The space is used up. Decide by the events since the oldest held one, although they
	// are fewer than a whole window.
	if len(w.held) > w.limit.Held || w.heldBytes > w.limit.Bytes {
		if good, bad := w.good-w.held[0].good, w.bad-w.held[0].bad; w.tooMany(bad, good+bad) {
			return 0, w.trip(bad, good+bad)
		}
		return settled + w.release(len(w.held)), nil
	}
	overdue := 0
	for overdue < len(w.held) && now.Sub(w.held[overdue].since) >= w.limit.Hold {
		overdue++
	}
	if overdue > 0 && w.tooMany(len(w.unreadable), len(w.outcomes)) {
		return 0, w.trip(len(w.unreadable), len(w.outcomes))
	}
	return settled + w.release(overdue), nil
}

// most returns how many unreadable events a full window may have.
func (w *Window) most() int { return int(w.limit.Share * float64(w.limit.Events)) }

func (w *Window) tooMany(bad, all int) bool {
	return bad >= w.limit.Minimum && float64(bad) > w.limit.Share*float64(all)
}

func (w *Window) trip(bad, all int) error {
	return w.reasons.explain(w.fields, bad, all, "recent events, where all of one aggregate count as one")
}

func (w *Window) release(n int) int {
	for _, h := range w.held[:n] {
		w.heldBytes -= h.bytes
	}
	w.held = append(w.held[:0], w.held[n:]...)
	if len(w.held) == 0 {
		w.reasons = breakdown{}
	}
	return n
}

// count puts an outcome into the ring. If the ring is full, the oldest outcome leaves it.
func (w *Window) count(outcome uint64) {
	if len(w.outcomes) < w.limit.Events {
		w.outcomes = append(w.outcomes, outcome)
		return
	}
	if oldest := w.outcomes[w.next]; oldest != readableEvent {
		delete(w.unreadable, oldest)
	}
	w.outcomes[w.next] = outcome
	w.next = (w.next + 1) % len(w.outcomes)
}

// aggregate returns a hash that identifies the aggregate of an event, for ids of any type.
func (w *Window) aggregate(ev *event.Event) uint64 {
	id := ev.RawAggregateID
	var hash maphash.Hash
	hash.SetSeed(w.seed)
	_ = hash.WriteByte(byte(id.Type))
	if id.Type == 0 {
		w.nameless++
		_, _ = hash.Write(binary.LittleEndian.AppendUint64(nil, w.nameless))
	} else {
		_, _ = hash.Write(id.Value)
	}
	return max(hash.Sum64(), readableEvent+1)
}
