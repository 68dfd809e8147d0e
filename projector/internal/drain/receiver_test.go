package drain_test

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// fakeReceiver is a session receiver. The broker's lock guards its fields.
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
	credit       int
	arrived      []*fakeMessage
	receiving    bool
	stopReleaser func()
	// knownDead is set after a call has returned that the link is dead.
	knownDead bool
}

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

// ReceiveMessages leaves credit behind, and a releaser takes the messages that arrive
// then. It reports a dead link as (0, nil), and attaches the session again at the next
// call.
func (r *fakeReceiver) ReceiveMessages(ctx context.Context, limit int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	b := r.broker
	b.mu.Lock()
	if r.receiving {
		b.problems = append(b.problems, "ReceiveMessages called concurrently")
	}
	r.receiving = true
	b.asks++
	b.asked += limit
	stop := r.stopReleaser
	r.stopReleaser = nil
	b.mu.Unlock()
	defer func() { b.mu.Lock(); r.receiving = false; b.mu.Unlock() }()
	if stop != nil {
		stop()
	}
	b.mu.Lock()
	switch {
	case r.closed:
		b.problems = append(b.problems, "ReceiveMessages called after Close")
	case !r.attached:
		if r.knownDead {
			b.problems = append(b.problems, "ReceiveMessages called on a dead link")
		}
		s := b.sessions[r.id]
		if s.owner != nil {
			b.mu.Unlock()
			return nil, &amqp.Error{Condition: "com.microsoft:session-cannot-be-locked"}
		}
		b.attach(s, r)
	}
	more := limit - len(r.arrived) - r.credit
	b.mu.Unlock()
	if more > 0 {
		pause(ctx, b.rtt)
		b.mu.Lock()
		if r.attached {
			r.credit += more
			r.deliver()
		}
		b.mu.Unlock()
	}

	var messages []*azservicebus.ReceivedMessage
	m, alive := r.next(ctx)
	if m != nil {
		messages = append(messages, r.received(m))
		enough, cancel := context.WithTimeout(ctx, o.TimeAfterFirstMessage)
		for len(messages) < limit {
			m, alive = r.next(enough)
			if m == nil {
				break
			}
			messages = append(messages, r.received(m))
		}
		cancel()
	}
	if alive {
		r.startReleaser()
	}
	switch {
	case len(messages) > 0:
		return messages, nil
	case !alive:
		b.mu.Lock()
		r.knownDead = true
		b.mu.Unlock()
		return nil, nil
	default:
		return nil, ctx.Err()
	}
}

func (r *fakeReceiver) received(m *fakeMessage) *azservicebus.ReceivedMessage {
	contentType := event.ContentTypeBSON
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	return &azservicebus.ReceivedMessage{MessageID: m.id, Body: m.body, ContentType: &contentType, LockToken: m.token, SessionID: &r.id}
}

// startReleaser releases messages that arrive between two calls. A message that arrives
// during a release stays for the next call, although its predecessor was released.
func (r *fakeReceiver) startReleaser() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.broker.mu.Lock()
	r.stopReleaser = func() { cancel(); <-done }
	r.broker.mu.Unlock()
	go func() {
		defer close(done)
		for {
			m, alive := r.next(ctx)
			if m == nil {
				return
			}
			pause(context.Background(), r.broker.rtt)
			r.broker.release(m, r)
			if ctx.Err() != nil || !alive {
				return
			}
		}
	}()
}

// settle reports success after 4 s if the lock is lost, unless ctx ends earlier.
func (r *fakeReceiver) settle(ctx context.Context, m *azservicebus.ReceivedMessage, then func(*fakeMessage)) error {
	b := r.broker
	if _, bounded := ctx.Deadline(); !bounded {
		b.mu.Lock()
		b.problems = append(b.problems, "settled without a deadline")
		b.mu.Unlock()
	}
	if err := b.settlement(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	settled := r.settleHeld(m, then)
	b.mu.Unlock()
	if settled {
		return nil
	}
	pause(ctx, 4*time.Second)
	return ctx.Err()
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
	return r.renew(ctx, &azservicebus.Error{Code: azservicebus.CodeLockLost})
}

// renew returns lost if the receiver does not hold the session.
func (r *fakeReceiver) renew(ctx context.Context, lost error) error {
	b := r.broker
	pause(ctx, b.rtt)
	if err := fault(b.renewErr); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.attached {
		return lost
	}
	r.session.expiry.Reset(b.lockFor)
	return nil
}

// Close takes three round trips.
func (r *fakeReceiver) Close(ctx context.Context) error { return r.close(ctx, 3*r.broker.rtt) }

func (r *fakeReceiver) close(ctx context.Context, takes time.Duration) error {
	b := r.broker
	b.mu.Lock()
	if r.receiving {
		b.problems = append(b.problems, "closed while receiving")
	}
	stop := r.stopReleaser
	r.stopReleaser = nil
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
	pause(ctx, takes)
	b.mu.Lock()
	defer b.mu.Unlock()
	r.closed = true
	if r.attached {
		b.detach(r.session)
	}
	return nil
}
