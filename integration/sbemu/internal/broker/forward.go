package broker

import (
	"sync"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// maxHops is the maximum number of times that a message is forwarded (documented quota).
const maxHops = 4

// forwarder forwards messages of a queue to another entity, in order. It runs its own
// goroutine while it has messages. Entities may forward to each other, so none may wait
// for another with its lock held.
type forwarder struct {
	target string
	send   func(target string, m *message.Message) *wire.Error
	failed func(m *message.Message, reason *wire.Error)

	mu      sync.Mutex
	idle    sync.Cond
	pending []*message.Message
	running bool
}

func newForwarder(target string, send func(string, *message.Message) *wire.Error, failed func(*message.Message, *wire.Error)) *forwarder {
	f := &forwarder{target: target, send: send, failed: failed}
	f.idle.L = &f.mu

	return f
}

func (f *forwarder) push(m *message.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.pending = append(f.pending, m)

	if !f.running {
		f.running = true

		go f.run()
	}
}

func (f *forwarder) run() {
	for {
		f.mu.Lock()

		batch := f.pending
		f.pending = nil

		if len(batch) == 0 {
			f.running = false
			f.idle.Broadcast()
			f.mu.Unlock()

			return
		}

		f.mu.Unlock()

		for _, m := range batch {
			err := wire.Errorf("MaxTransferHopCountExceeded", "The message was forwarded more than %d times.", maxHops)
			if m.Hops <= maxHops {
				err = f.send(f.target, m)
			}

			if err != nil {
				f.failed(m, err)
			}
		}
	}
}

// wait waits until nothing is left to forward.
func (f *forwarder) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()

	for f.running {
		f.idle.Wait()
	}
}
