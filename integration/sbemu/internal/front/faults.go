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
	credits   credits
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

// credits are the service's units of throttling: the limit per second, and the rest of
// the current second.
type credits struct {
	perSecond int // 0: unlimited
	window    int64
	left      int
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

// LimitCredits limits the credits per second, as the Standard tier does. A sent message
// costs 1 credit, plus 1 for each filter that evaluates it. A received message costs 1, a
// management request 10 (as documented). Sends and requests over the limit are answered
// with server-busy; messages to be received wait. Zero removes the limit.
func (f *Faults) LimitCredits(perSecond int) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.credits = credits{perSecond: perSecond}
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
	f.credits = credits{}
	f.update(time.Now())
}

// update records whether any fault is active. The caller holds the lock.
func (f *Faults) update(now time.Time) {
	f.active.Store(len(f.refusals) > 0 || f.poison != nil || f.credits.perSecond > 0 || now.Before(f.busyUntil) || now.Before(f.outage.until))
}

// refuseSend returns why messages that are sent together are refused, or nil. filters is
// how many filters evaluate each message.
func (f *Faults) refuseSend(entity string, messages []*message.Message, filters int) *wire.Error {
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

	return f.throttled(len(messages) * (1 + filters))
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

// refuseRequest returns why a management request is refused, or nil.
func (f *Faults) refuseRequest(string) *wire.Error {
	if !f.active.Load() {
		return nil
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	return f.throttled(10)
}

// refuseAttach returns why a receiver is refused, or nil.
func (f *Faults) refuseAttach(string) *wire.Error {
	if !f.active.Load() {
		return nil
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	return f.throttled(1)
}

// throttled takes credits, or returns server-busy if there are not enough. The caller
// holds the lock.
func (f *Faults) throttled(cost int) *wire.Error {
	now := time.Now()

	if now.Before(f.busyUntil) {
		return errBusy()
	}

	if f.credits.perSecond == 0 {
		f.update(now)

		return nil
	}

	if !f.credits.take(now, cost) {
		return errBusy()
	}

	return nil
}

// takeDelivery takes the credit for a received message, or returns how long the message
// must wait for credit.
func (f *Faults) takeDelivery() (wait time.Duration) {
	if !f.active.Load() {
		return 0
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if f.credits.perSecond == 0 || f.credits.take(time.Now(), 1) {
		return 0
	}

	now := time.Now()

	return now.Truncate(time.Second).Add(time.Second).Sub(now)
}

// take takes credits of the current second, and reports whether enough were left.
func (c *credits) take(now time.Time, cost int) bool {
	if second := now.Unix(); second != c.window {
		c.window, c.left = second, c.perSecond
	}

	if c.left <= 0 {
		return false
	}

	c.left -= cost

	return true
}

func errBusy() *wire.Error {
	return wire.Errorf(broker.CondServerBusy, "The request was terminated because the namespace sbemu is being throttled. "+
		"Error code: 50009. Please wait 2 seconds and try again.")
}
