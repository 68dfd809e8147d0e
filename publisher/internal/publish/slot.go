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

// hasWork reports whether a batch may be taken. Suspects have as many slots as the others,
// and only those. The caller holds the mutex.
func (d *Dispatcher) hasWork() bool {
	return d.lanes.ready.head != nil && d.sends < d.limit ||
		d.lanes.suspects.head != nil && d.suspectSends < d.limit
}

// take fills the batch, which stays empty if another worker was faster.
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
	from := &d.lanes.ready
	if w.suspect = from.head == nil || d.sends >= d.limit; w.suspect {
		from = &d.lanes.suspects
		d.suspectSends++
	} else {
		d.sends++
	}
	w.batch = d.lanes.take(w.batch, from, d.policy == BatchingMixed, maxEvents, d.batchBytes)
	d.wake()
}

// done frees the slot of this worker's batch.
func (w *worker) done() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.suspect {
		w.d.suspectSends--
	} else {
		w.d.sends--
	}
	w.d.wake()
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

// slow moves the batch to a slot of the suspects, if one is free.
func (w *worker) slow() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if !w.suspect && w.d.suspectSends < w.d.limit {
		w.suspect = true
		w.d.sends--
		w.d.suspectSends++
		w.d.wake()
	}
}
