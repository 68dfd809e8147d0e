package broker

import (
	"container/heap"
	"time"
)

// dueHeap orders items by time: the enqueue time, or the expiry. An item is in at most
// one of these heaps, because a scheduled item's time to live begins when it is enqueued.
type dueHeap struct {
	items []*Item
	at    func(*Item) time.Time
}

func (h *dueHeap) Len() int           { return len(h.items) }
func (h *dueHeap) Less(i, j int) bool { return h.at(h.items[i]).Before(h.at(h.items[j])) }

func (h *dueHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].dueIndex, h.items[j].dueIndex = i, j
}

func (h *dueHeap) Push(x any) {
	it, _ := x.(*Item)
	it.dueIndex = len(h.items)
	h.items = append(h.items, it)
}

func (h *dueHeap) Pop() any {
	last := len(h.items) - 1
	it := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	it.dueIndex = -1

	return it
}

func (h *dueHeap) add(it *Item) { heap.Push(h, it) }

func (h *dueHeap) remove(it *Item) {
	if it.dueIndex >= 0 {
		heap.Remove(h, it.dueIndex)
	}
}

// due removes and returns the first item if it is due, or returns nil.
func (h *dueHeap) due(now time.Time) *Item {
	if len(h.items) == 0 || h.at(h.items[0]).After(now) {
		return nil
	}

	it, _ := heap.Pop(h).(*Item)

	return it
}

// first returns the earliest time, or zero.
func (h *dueHeap) first() time.Time {
	if len(h.items) == 0 {
		return time.Time{}
	}

	return h.at(h.items[0])
}

// sessionHeap orders locked sessions by the end of their lock.
type sessionHeap []*session

func (h sessionHeap) Len() int           { return len(h) }
func (h sessionHeap) Less(i, j int) bool { return h[i].lockedUntil.Before(h[j].lockedUntil) }

func (h sessionHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].lockIndex, h[j].lockIndex = i, j
}

func (h *sessionHeap) Push(x any) {
	s, _ := x.(*session)
	s.lockIndex = len(*h)
	*h = append(*h, s)
}

func (h *sessionHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]

	return s
}

// alarm wakes a queue at the earliest of its deadlines. It is set often, and seldom to an
// earlier time than before. So a later deadline does not reset the timer: the timer fires
// early, nothing is due, and the queue sets it again.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero: not set
}

func (a *alarm) set(at, now time.Time, wake func()) {
	if at.IsZero() || !a.at.IsZero() && !at.Before(a.at) {
		return
	}

	a.at = at

	if a.timer == nil {
		a.timer = time.AfterFunc(at.Sub(now), wake)
	} else {
		a.timer.Reset(at.Sub(now))
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}

	a.at = time.Time{}
}

func earliest(times ...time.Time) time.Time {
	var first time.Time

	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}

	return first
}
