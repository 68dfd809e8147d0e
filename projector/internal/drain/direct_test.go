package drain_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
)

// withEachReceiver runs a test in a synctest bubble, once with each of the two receivers.
// Tests of failing stores and of memory use only the receiver of the SDK, because they
// take long and do not depend on the receiver.
func withEachReceiver(t *testing.T, test func(t *testing.T, broker *fakeBroker)) {
	t.Helper()
	for _, receiver := range []string{"amqp", "sdk"} {
		t.Run(receiver, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				broker := newFakeBroker(2*time.Millisecond, time.Minute)
				broker.direct = receiver == "amqp"
				test(t, broker)
			})
		})
	}
}

// directReceiver behaves like the receiver of package sessions, without the pitfalls of
// the SDK's. Tests with integration/sbemu show that the real one behaves so.
type directReceiver struct {
	*fakeReceiver
	// sent are the messages for which a settlement was sent.
	sent map[*azservicebus.ReceivedMessage]struct{}
}

var errDetached = &amqp.LinkError{RemoteErr: &amqp.Error{Condition: "com.microsoft:session-lock-lost"}}

// ReceiveMessages returns the messages that have arrived. Later ones wait for the next
// call.
func (r *directReceiver) ReceiveMessages(ctx context.Context, limit int, _ *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
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
		r.knownDead = true
		b.mu.Unlock()
		return nil, errDetached
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

// settle sends a settlement once, and returns the broker's answer.
func (r *directReceiver) settle(ctx context.Context, m *azservicebus.ReceivedMessage, then func(*fakeMessage)) error {
	b := r.broker
	b.mu.Lock()
	if _, bounded := ctx.Deadline(); !bounded {
		b.problems = append(b.problems, "settled without a deadline")
	}
	_, again := r.sent[m]
	r.sent[m] = struct{}{}
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

func (r *directReceiver) CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, _ *azservicebus.CompleteMessageOptions) error {
	return r.settle(ctx, m, func(*fakeMessage) {})
}

func (r *directReceiver) DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error {
	return r.settle(ctx, m, func(m *fakeMessage) { r.broker.dead[m.id] = *o.Reason })
}

func (r *directReceiver) RenewSessionLock(ctx context.Context, _ *azservicebus.RenewSessionLockOptions) error {
	return r.renew(ctx, &sessions.StatusError{Code: 410, Description: "The session lock has expired."})
}

// Close takes one round trip.
func (r *directReceiver) Close(ctx context.Context) error { return r.close(ctx, r.broker.rtt) }
