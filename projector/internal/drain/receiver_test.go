package drain_test

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
)

// fakeReceiver is a session receiver that behaves like that of package sessions, as
// integration/contract shows it. The broker's lock guards its fields. The SDK's receiver drains
// the second projector of each end-to-end scenario, and some of the histories.
type fakeReceiver struct {
	broker      *fakeBroker
	id          string
	session     *fakeSession
	attached    bool
	closed      bool
	lockedUntil time.Time
	epoch       int
	// credit is the number of messages that the broker may still send. arrived are the
	// messages that it has sent.
	credit    int
	arrived   []*fakeMessage
	receiving bool
	// knownDead is set after a call has returned that the link is dead.
	knownDead bool
	// sent are the messages for which a settlement was sent.
	sent map[*azservicebus.ReceivedMessage]bool
}

var errDetached = &amqp.LinkError{RemoteErr: &amqp.Error{Condition: "com.microsoft:session-lock-lost"}}

func pause(ctx context.Context, d time.Duration) { _ = poll.Wait(ctx, d) }

// deliver sends available messages within the credit. The caller must hold the lock.
func (r *fakeReceiver) deliver() {
	b, s := r.broker, r.session
	for ; r.credit > 0 && s.first < len(s.messages); s.first++ {
		m := s.messages[s.first]
		if m.settled || m.link != nil {
			continue
		}
		b.tokens++
		binary.BigEndian.PutUint64(m.token[:], b.tokens)
		s.byToken[m.token] = m
		m.link = r
		b.out += len(m.body)
		b.maxOut = max(b.maxOut, b.out)
		r.credit--
		r.arrived = append(r.arrived, m)
	}
}

// next takes the next message that has arrived. If there is none, it reports whether the
// link is alive: if so, ctx has ended.
func (r *fakeReceiver) next(ctx context.Context) (*fakeMessage, bool) {
	b := r.broker
	for {
		b.mu.Lock()
		changed := b.changed
		if !r.attached {
			b.mu.Unlock()
			return nil, false
		}
		if len(r.arrived) > 0 {
			m := r.arrived[0]
			r.arrived = r.arrived[1:]
			b.mu.Unlock()
			return m, true
		}
		b.mu.Unlock()
		// Like go-amqp, return arrived messages even if the context has ended.
		if ctx.Err() != nil {
			return nil, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// ReceiveMessages returns the messages that have arrived. Later ones wait for the next
// call.
func (r *fakeReceiver) ReceiveMessages(ctx context.Context, limit int, _ *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	b := r.broker
	b.mu.Lock()
	switch {
	case r.receiving:
		b.problems = append(b.problems, "ReceiveMessages called concurrently")
	case r.closed:
		b.problems = append(b.problems, "ReceiveMessages called after Close")
	case r.knownDead:
		b.problems = append(b.problems, "ReceiveMessages called on a dead link")
	}
	r.receiving = true
	b.asks++
	b.asked += limit
	more := limit - len(r.arrived) - r.credit
	b.mu.Unlock()
	defer func() { b.mu.Lock(); r.receiving = false; b.mu.Unlock() }()
	if more >= limit/2 && more > 0 {
		pause(ctx, b.rtt)
		b.mu.Lock()
		if r.attached {
			r.credit += more
			r.deliver()
		}
		b.mu.Unlock()
	}
	m, alive := r.next(ctx)
	switch {
	case !alive:
		b.mu.Lock()
		defer b.mu.Unlock()
		r.knownDead = true
		return nil, b.linkErr
	case m == nil:
		return nil, ctx.Err()
	}
	messages := []*azservicebus.ReceivedMessage{r.received(m)}
	b.mu.Lock()
	here := r.arrived[:min(len(r.arrived), limit-1)]
	r.arrived = r.arrived[len(here):]
	here = slices.Clone(here)
	b.mu.Unlock()
	for _, m := range here {
		messages = append(messages, r.received(m))
	}
	return messages, nil
}

func (r *fakeReceiver) received(m *fakeMessage) *azservicebus.ReceivedMessage {
	contentType := event.ContentTypeBSON
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	return &azservicebus.ReceivedMessage{MessageID: m.id, Body: m.body, ContentType: &contentType, LockToken: m.token, SessionID: &r.id}
}

// settle sends a settlement once, and returns the broker's answer.
func (r *fakeReceiver) settle(ctx context.Context, m *azservicebus.ReceivedMessage, then func(*fakeMessage)) error {
	b := r.broker
	b.mu.Lock()
	if _, bounded := ctx.Deadline(); !bounded {
		b.problems = append(b.problems, "settled without a deadline")
	}
	again := r.sent[m]
	r.sent[m] = true
	b.mu.Unlock()
	if again {
		return sessions.ErrSettled
	}
	if err := b.settlement(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.attached {
		return errDetached
	}
	if !r.settleHeld(m, then) {
		return &amqp.Error{Condition: "com.microsoft:message-lock-lost"}
	}
	return nil
}

// settleHeld settles a message if the receiver holds it, and reports whether it does. The
// caller must hold the broker's lock.
func (r *fakeReceiver) settleHeld(m *azservicebus.ReceivedMessage, then func(*fakeMessage)) bool {
	b := r.broker
	have := b.sessions[r.id].byToken[m.LockToken]
	if have == nil || have.token != m.LockToken || have.link != r || have.settled {
		return false
	}
	have.settled, have.link = true, nil
	b.out -= len(have.body)
	b.sessions[r.id].left--
	then(have)
	return true
}

// fault returns the next fault that the test has ordered; nil for none.
func fault(ordered func() error) error {
	if ordered == nil {
		return nil
	}
	return ordered()
}

func (r *fakeReceiver) CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, _ *azservicebus.CompleteMessageOptions) error {
	return r.settle(ctx, m, func(*fakeMessage) {})
}

func (r *fakeReceiver) DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error {
	return r.settle(ctx, m, func(m *fakeMessage) { r.broker.dead[m.id] = *o.Reason })
}

func (r *fakeReceiver) RenewSessionLock(ctx context.Context, _ *azservicebus.RenewSessionLockOptions) error {
	b := r.broker
	pause(ctx, b.rtt)
	if err := fault(b.renewErr); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.attached {
		return &sessions.StatusError{Code: 410, Description: "The session lock has expired."}
	}
	r.session.expiry.Reset(b.lockFor)
	return nil
}

// Close takes one round trip.
func (r *fakeReceiver) Close(ctx context.Context) error {
	b := r.broker
	b.mu.Lock()
	if r.receiving {
		b.problems = append(b.problems, "closed while receiving")
	}
	b.mu.Unlock()
	pause(ctx, b.rtt)
	b.mu.Lock()
	defer b.mu.Unlock()
	r.closed = true
	if r.attached {
		b.detach(r.session)
	}
	return nil
}
