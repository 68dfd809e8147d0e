package broker

import "sort"

// fifo holds items in the order in which they were enqueued. An item keeps its place
// until it is removed: an abandoned or released item is again ahead of later items.
type fifo struct {
	slots  []slot
	head   int    // index of the first slot in use
	base   uint64 // position of slots[0]
	cursor uint64 // no item before this position is available
	live   int    // items, without removed ones
}

type slot struct {
	seq  int64
	item *Item // nil: removed
}

func (f *fifo) push(it *Item) {
	it.position = f.base + uint64(len(f.slots))
	f.slots = append(f.slots, slot{seq: it.seq, item: it})
	f.live++
}

// remove removes an item permanently.
func (f *fifo) remove(it *Item) {
	f.slots[it.position-f.base].item = nil
	f.live--

	for f.head < len(f.slots) && f.slots[f.head].item == nil {
		f.head++
	}

	if f.head == len(f.slots) {
		f.base += uint64(f.head)
		f.head = 0

		if cap(f.slots) > 64 {
			f.slots = nil
		} else {
			f.slots = f.slots[:0]
		}

		return
	}

	if f.head >= 32 && f.head > len(f.slots)/2 {
		n := copy(f.slots, f.slots[f.head:])
		clear(f.slots[n:])
		f.slots = f.slots[:n]
		f.base += uint64(f.head)
		f.head = 0
	}
}

// reopen makes an item that became available again visible to next.
func (f *fifo) reopen(it *Item) {
	f.cursor = min(f.cursor, it.position)
}

// nextAvailable returns the first available item, or nil.
func (f *fifo) nextAvailable() *Item {
	f.cursor = max(f.cursor, f.base+uint64(f.head))

	for end := f.base + uint64(len(f.slots)); f.cursor < end; f.cursor++ {
		if it := f.slots[f.cursor-f.base].item; it != nil && it.available() {
			return it
		}
	}

	return nil
}

// from returns the items from a sequence number on. It relies on sequence
// numbers that rise with positions.
func (f *fifo) from(seq int64) []slot {
	used := f.slots[f.head:]

	return used[sort.Search(len(used), func(i int) bool { return used[i].seq >= seq }):]
}
