package broker

import (
	"hash/maphash"
	"time"
)

// history remembers message ids for duplicate detection, each for one window after it was
// first seen. It keeps 128-bit hashes instead of the ids.
type history struct {
	window time.Duration
	seeds  [2]maphash.Seed
	seen   map[digest]struct{}
	order  []remembered
	head   int
}

type digest [2]uint64

type remembered struct {
	digest digest
	at     int64 // first seen, in Unix nanoseconds
}

func newHistory(window time.Duration) *history {
	return &history{
		window: window,
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen:   make(map[digest]struct{}),
	}
}

// duplicate reports whether an id was seen within the window. If not, it remembers the
// id.
func (h *history) duplicate(id string, now time.Time) bool {
	h.expire(now.UnixNano())

	d := digest{maphash.String(h.seeds[0], id), maphash.String(h.seeds[1], id)}
	if _, ok := h.seen[d]; ok {
		return true
	}

	h.seen[d] = struct{}{}
	h.order = append(h.order, remembered{digest: d, at: now.UnixNano()})

	return false
}

func (h *history) expire(now int64) {
	for h.head < len(h.order) && h.order[h.head].at <= now-int64(h.window) {
		delete(h.seen, h.order[h.head].digest)
		h.head++
	}

	if h.head > 1024 && h.head > len(h.order)/2 {
		h.order = h.order[:copy(h.order, h.order[h.head:])]
		h.head = 0
	}
}
