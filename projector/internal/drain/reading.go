package drain

import (
	"sync"
	"sync/atomic"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// reading records whether this process has read an event. Until then its settings may be
// wrong, so it settles no message that is not an event. All sessions share one.
type reading struct {
	read atomic.Bool
	// repeats limits the lines about messages that are not events.
	repeats obs.Repeats

	mu sync.Mutex
	// err is the error of the first message that was not an event.
	err error
}

// succeeded says that a message is an event.
func (r *reading) succeeded() {
	if !r.read.Load() {
		r.read.Store(true)
	}
}

// failed says that a message is not an event.
func (r *reading) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// Unreadable returns why the first message of this process is not an event; nil if it has
// read an event, or has received no message yet. Until it has read an event, messages that
// are not events stay in the subscription.
func (a *Acceptor) Unreadable() error {
	if a.reading.read.Load() {
		return nil
	}
	a.reading.mu.Lock()
	defer a.reading.mu.Unlock()
	return a.reading.err
}
