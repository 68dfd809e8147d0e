package front

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Faults are the faults that tests order from the server. The zero value has no faults.
type Faults struct {
	latencyIn  atomic.Int64
	latencyOut atomic.Int64

	active atomic.Bool // a refusal or throttling is active

	mu        sync.Mutex
	refusals  []*refusal
	poison    *poison
	outage    outage
	busyUntil time.Time
}

// poison refuses sends that contain certain messages.
type poison struct {
	matches func(messageID string) bool
	reason  *wire.Error
}

// outage refuses all links until a time.
type outage struct {
	until  time.Time
	reason *wire.Error
}

// refusal refuses the next sends to an entity.
type refusal struct {
	entity string // "": any
	left   int
	reason *wire.Error
}

// SetLatency delays all incoming frames by in and all outgoing frames by out.
func (f *Faults) SetLatency(in, out time.Duration) {
	f.latencyIn.Store(int64(in))
	f.latencyOut.Store(int64(out))
}

// RefuseSends refuses the next n sends to an entity with an error. A batch counts as one
// send; the entity "" matches all entities.
func (f *Faults) RefuseSends(entity string, n int, reason *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.refusals = append(f.refusals, &refusal{entity: entity, left: n, reason: reason})
	f.update(time.Now())
}

// RefuseMessages refuses each send that contains a message with a matching id.
func (f *Faults) RefuseMessages(matches func(messageID string) bool, reason *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.poison = &poison{matches: matches, reason: reason}
	f.update(time.Now())
}

// RefuseLinks refuses all new links with an error for the duration d.
func (f *Faults) RefuseLinks(d time.Duration, reason *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.outage = outage{until: time.Now().Add(d), reason: reason}
	f.update(time.Now())
}

// Throttle answers sends, requests and accepts with server-busy for the duration d.
func (f *Faults) Throttle(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.busyUntil = time.Now().Add(d)
	f.update(time.Now())
}

// Clear ends all faults.
func (f *Faults) Clear() {
	f.SetLatency(0, 0)

	f.mu.Lock()
	defer f.mu.Unlock()

	f.refusals = nil
	f.poison = nil
	f.outage = outage{}
	f.busyUntil = time.Time{}
	f.update(time.Now())
}

// update records whether any fault is active. The caller holds the lock.
func (f *Faults) update(now time.Time) {
	f.active.Store(len(f.refusals) > 0 || f.poison != nil || now.Before(f.busyUntil) || now.Before(f.outage.until))
}

// refuseSend returns why messages that are sent together are refused, or nil.
func (f *Faults) refuseSend(entity string, messages []*message.Message) *wire.Error {
	if !f.active.Load() {
		return nil
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if f.poison != nil && slices.ContainsFunc(messages, func(m *message.Message) bool { return f.poison.matches(m.ID) }) {
		return f.poison.reason
	}

	for i, r := range f.refusals {
		if r.entity != "" && !strings.EqualFold(r.entity, entity) {
			continue
		}

		if r.left--; r.left <= 0 {
			f.refusals = append(f.refusals[:i], f.refusals[i+1:]...)
			f.update(time.Now())
		}

		return r.reason
	}

	return f.throttled()
}

// refuseLink returns why a link is refused, or nil.
func (f *Faults) refuseLink() *wire.Error {
	if !f.active.Load() {
		return nil
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if time.Now().Before(f.outage.until) {
		return f.outage.reason
	}

	return nil
}

// refuseRequest returns why a management request or a receiver is refused, or nil.
func (f *Faults) refuseRequest() *wire.Error {
	if !f.active.Load() {
		return nil
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	return f.throttled()
}

// throttled returns server-busy while the server is throttled. The caller holds the lock.
func (f *Faults) throttled() *wire.Error {
	now := time.Now()

	if now.Before(f.busyUntil) {
		return errBusy()
	}

	f.update(now)

	return nil
}

func errBusy() *wire.Error {
	return wire.Errorf(broker.CondServerBusy, "The request was terminated because the namespace sbemu is being throttled. "+
		"Error code: 50009. Please wait 2 seconds and try again.")
}
