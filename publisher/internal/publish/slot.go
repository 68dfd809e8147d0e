package publish

import (
	"context"
	"time"
)

// slowSend is the time after which an unanswered send no longer occupies a regular slot:
// an event that the broker does not answer must not delay the others.
const slowSend = time.Second

// awaitWork waits until a lane is ready; false means that Run ends. woken says that wake
// sent this worker.
func (d *Dispatcher) awaitWork(ctx context.Context, woken bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if woken {
			d.waking = false
		}
		if ctx.Err() != nil {
			return false
		}
		if d.hasWork() {
			return true
		}
		d.idle++
		d.work.Wait()
		d.idle--
		woken = true
	}
}

// slot is what a batch in flight counts among.
type slot int

const (
	slotRegular slot = iota
	slotSuspect
	slotLarge
)

// hasWork reports whether a batch may be taken. Suspects have as many slots as the others,
// and only those. Large messages have one slot: their bodies and the SDK's copies of them
// are most of the memory. The caller holds the mutex.
func (d *Dispatcher) hasWork() bool {
	return d.lanes.ready.head != nil && d.sends < d.limit ||
		d.lanes.suspects.head != nil && d.suspectSends < d.limit ||
		d.lanes.large.head != nil && !d.largeSend
}

// take fills the batch, which stays empty if another worker was faster, or if the events of
// the ready lanes were dropped from memory.
func (w *worker) take() {
	d := w.d
	d.mu.Lock()
	defer d.mu.Unlock()
	w.policy, w.batch = d.policy, w.batch[:0]
	if !d.hasWork() {
		return
	}
	maxEvents := 1
	if d.policy != BatchingOff {
		maxEvents = d.rateLimit.batch(d.options.MaxBatchEvents)
	}
	var from *laneQueue
	switch {
	case d.lanes.large.head != nil && !d.largeSend:
		from, w.slot, maxEvents = &d.lanes.large, slotLarge, 1
		d.largeSend = true
	case d.lanes.ready.head != nil && d.sends < d.limit:
		from, w.slot = &d.lanes.ready, slotRegular
		d.sends++
	default:
		from, w.slot = &d.lanes.suspects, slotSuspect
		d.suspectSends++
	}
	w.batch = d.lanes.take(w.batch, from, d.policy == BatchingMixed, maxEvents, d.batchBytes)
	if len(w.batch) == 0 {
		w.freeSlot()
	}
	d.wake()
}

// done frees the slot of this worker's batch, and the memory of its bodies.
func (w *worker) done() {
	w.d.bodyBudget.Release(w.reserved)
	w.reserved = 0
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.freeSlot()
	w.d.wake()
}

// freeSlot frees the slot of this worker's batch. The caller holds the mutex.
func (w *worker) freeSlot() {
	switch w.slot {
	case slotRegular:
		w.d.sends--
	case slotSuspect:
		w.d.suspectSends--
	case slotLarge:
		w.d.largeSend = false
	}
}

// watchSlow starts a timer that calls slow if the send takes longer than slowSend. The call
// has ended before the send is over.
func (w *worker) watchSlow() {
	if w.slowTimer != nil {
		w.slowTimer.Reset(slowSend)
		return
	}
	w.slowNoted = make(chan struct{}, 1)
	w.slowTimer = time.AfterFunc(slowSend, func() {
		w.slow()
		w.slowNoted <- struct{}{}
	})
}

// slow marks the lanes of the batch, frees the memory of their events that can be read again,
// and moves the batch to a slot of the suspects if one is free.
func (w *worker) slow() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	for _, e := range w.batch {
		e.lane.slow = true
		w.d.unloadReloaded(e.lane)
	}
	if w.slot == slotRegular && w.d.suspectSends < w.d.limit {
		w.slot = slotSuspect
		w.d.sends--
		w.d.suspectSends++
	}
	w.d.wake()
}
