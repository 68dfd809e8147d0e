package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

// receiver receives messages.
type receiver interface {
	ReceiveMessages(ctx context.Context, limit int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

// sessionReceiver is the common part of the SDK's session receiver and that of package
// sessions.
type sessionReceiver interface {
	receiver
	CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error
	DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error
	RenewSessionLock(ctx context.Context, o *azservicebus.RenewSessionLockOptions) error
	Close(ctx context.Context) error
	SessionID() string
	LockedUntil() time.Time
}

var (
	_ sessionReceiver = (*azservicebus.SessionReceiver)(nil)
	_ sessionReceiver = (*sessions.Session)(nil)
)

// accepter accepts sessions over one connection.
type accepter interface {
	accept(ctx context.Context, wait time.Duration) (sessionReceiver, error)
	// noSession reports whether an error of accept means that no session is free.
	noSession(err error) bool
}

type sdkAccepter struct{ client *azservicebus.Client }

func (a sdkAccepter) accept(ctx context.Context, wait time.Duration) (sessionReceiver, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	r, err := a.client.AcceptNextSessionForSubscription(ctx, "events", "projector", nil)
	if err != nil {
		return nil, err
	}

	return r, nil
}

func (sdkAccepter) noSession(err error) bool {
	var sdk *azservicebus.Error

	return errors.As(err, &sdk) && sdk.Code == azservicebus.CodeTimeout
}

type amqpAccepter struct{ *sessions.Connection }

func (a amqpAccepter) accept(ctx context.Context, wait time.Duration) (sessionReceiver, error) {
	s, err := a.Accept(ctx, wait)
	if err != nil {
		return nil, err
	}

	return s, nil
}

func (amqpAccepter) noSession(err error) bool { return errors.Is(err, sessions.ErrNoSession) }

// connection makes a connection of package sessions, which the test closes.
func (e *env) connection(change ...func(*sessions.Options)) *sessions.Connection {
	e.t.Helper()

	namespace, err := sbus.Open(sbus.Config{ConnectionString: secret.Text(e.ConnectionString()), Topic: "events"})
	must(e.t, err)

	o := sessions.Options{Namespace: namespace, Topic: "events", Subscription: "projector", Dial: e.dial}
	for _, f := range change {
		f(&o)
	}

	c := sessions.New(o)
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()

		_ = c.Close(ctx)
	})

	return c
}

// withBoth runs a test in virtual time with each of the two receivers, over each transport.
func withBoth(t *testing.T, test func(e *env, a accepter)) {
	t.Helper()
	t.Parallel()

	for name, open := range map[string]func(*env) accepter{
		"amqp": func(e *env) accepter { return amqpAccepter{e.connection()} },
		"sdk":  func(e *env) accepter { return sdkAccepter{e.client()} },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, sbemu.Default(), func(e *env) { test(e, open(e)) })
		})
	}
}

// next accepts the next available session.
func (e *env) next(a accepter) sessionReceiver {
	e.t.Helper()

	r, err := a.accept(e.ctx, 30*time.Second)
	must(e.t, err)

	return r
}

// take receives n messages, one at a time, so that no credit is left over.
func (e *env) take(r receiver, n int) []*azservicebus.ReceivedMessage {
	e.t.Helper()

	var out []*azservicebus.ReceivedMessage

	for len(out) < n {
		ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
		got, err := r.ReceiveMessages(ctx, 1, nil)

		cancel()
		must(e.t, err)

		out = append(out, got...)
	}

	return out
}

// TestReceiversReceiveInOrder covers TestSessionReceiver_acceptSession,
// _acceptNextSession_sessionExists, _subscription and SendFiveReceiveFive of the SDK.
func TestReceiversReceiveInOrder(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1", "2", "3", "4", "5")

		r := e.next(a)
		equal(t, "session", r.SessionID(), "a")

		if left := time.Until(r.LockedUntil()); left < 29*time.Second || left > 30*time.Second {
			t.Fatalf("lock lasts %s", left)
		}

		for i, m := range e.take(r, 5) {
			equal(t, "message", m.MessageID, fmt.Sprint(i+1))
			equal(t, "body", string(m.Body), m.MessageID)
			equal(t, "session of the message", *m.SessionID, "a")
			equal(t, "delivery count", m.DeliveryCount, 1)

			if m.EnqueuedTime.IsZero() {
				t.Fatalf("message lacks its time: %+v", m)
			}

			must(t, r.CompleteMessage(e.ctx, m, nil))
		}

		must(t, r.Close(e.ctx))

		counts, err := e.Counts(queue)
		must(t, err)
		equal(t, "counts", counts, sbemu.Counts{})
	})
}

// TestReceiversAcceptABlankSessionID: TestSessionReceiver_blankSessionIDs of the SDK.
func TestReceiversAcceptABlankSessionID(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		m := message("1", "")
		m.SessionID = pointer("")
		must(e.t, e.sender(e.client(), "events").SendMessage(e.ctx, m, nil))

		r := e.next(a)
		equal(e.t, "session", r.SessionID(), "")
		must(e.t, r.CompleteMessage(e.ctx, e.take(r, 1)[0], nil))
	})
}

// TestReceiversWaitForASession: TestSessionReceiver_acceptNextSession_noSessionsExist of
// the SDK.
func TestReceiversWaitForASession(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		start := time.Now()

		_, err := a.accept(e.ctx, 10*time.Second)
		if !a.noSession(err) {
			t.Fatalf("error is %v", err)
		}

		if waited := time.Since(start); waited < 9*time.Second || waited > 10*time.Second {
			t.Fatalf("waited for %s", waited)
		}

		go func() {
			wait(5 * time.Second)
			e.send(e.sender(e.client(), "events"), "late", "1")
		}()

		equal(t, "session", e.next(a).SessionID(), "late")
	})
}

func TestCancelledReceiversLeaveNoSessionLocked(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		ctx, cancel := context.WithCancel(e.ctx)
		done := make(chan error)

		go func() {
			_, err := a.accept(ctx, time.Minute)
			done <- err
		}()

		wait(time.Second)
		cancel()

		if err := <-done; sbus.Classify(err) != sbus.ClassStopped {
			t.Fatalf("error is %v", err)
		}

		e.send(e.sender(e.client(), "events"), "a", "1")
		r := e.next(amqpAccepter{e.connection()})
		equal(t, "session", r.SessionID(), "a")
		equal(t, "delivery count", e.take(r, 1)[0].DeliveryCount, 1)
	})
}

// TestReceiversAreRefused covers TestSessionReceiver_nonSessionReceiver of the SDK with the
// roles reversed, and the errors of wrong configurations.
func TestReceiversAreRefused(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		change func(*sbemu.Config)
		fault  string
		want   sbus.Class
	}{
		"no sessions": {change: func(c *sbemu.Config) { c.Topics[0].Subscriptions[0].RequiresSession = false }, want: sbus.ClassRefused},
		"disabled":    {change: func(c *sbemu.Config) { c.Topics[0].Subscriptions[0].Disabled = true }, want: sbus.ClassFatal},
		"missing":     {change: func(c *sbemu.Config) { c.Topics[0].Subscriptions[0].Name = "other" }, want: sbus.ClassFatal},
		"no right": {change: func(c *sbemu.Config) {
			c.Policies = []sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Send: true}}
		}, want: sbus.ClassFatal},
		"busy":          {fault: "com.microsoft:server-busy", want: sbus.ClassBusy},
		"internal":      {fault: "amqp:internal-error", want: sbus.ClassTransient},
		"detach forced": {fault: "amqp:link:detach-forced", want: sbus.ClassConnectionLost},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sbemu.Default()
			if test.change != nil {
				test.change(&cfg)
			}

			each(t, cfg, func(e *env) {
				if test.fault != "" {
					e.RefuseLinks(time.Minute, test.fault)
				}

				for _, a := range []accepter{amqpAccepter{e.connection()}, sdkAccepter{e.client()}} {
					_, err := a.accept(e.ctx, 5*time.Second)
					if class := sbus.Classify(err); class != test.want {
						e.t.Errorf("%T: class %s, want %s: %v", a, class, test.want, err)
					}
				}
			})
		})
	}
}

// TestReceiversRenewTheLock: TestSessionReceiver_RenewSessionLock of the SDK.
func TestReceiversRenewTheLock(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1")
		r := e.next(a)
		m := e.take(r, 1)[0]

		for range 60 { // 15 minutes of a lock of 30 s
			wait(15 * time.Second)
			must(t, r.RenewSessionLock(e.ctx, nil))
		}

		must(t, r.CompleteMessage(e.ctx, m, nil))
	})
}

func TestReceiversReportALostLock(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1", "2")
		r := e.next(a)
		m := e.take(r, 1)[0]

		go func() {
			wait(time.Second)
			must(t, e.LoseSessionLock(queue, "a"))
		}()

		ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
		defer cancel()

		_ = e.take(r, 1)

		if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || ctx.Err() != nil {
			t.Fatalf("received %v, %v after the lock was lost", ids(got), err)
		}

		short, cancelShort := context.WithTimeout(e.ctx, 3*time.Second)
		defer cancelShort()

		if err := r.CompleteMessage(short, m, nil); err == nil {
			t.Error("a message was settled after the lock was lost")
		}

		// The SDK's receiver would attach the session again here.
		if _, ok := a.(amqpAccepter); ok {
			if err := r.RenewSessionLock(e.ctx, nil); sbus.Classify(err) != sbus.ClassLockLost {
				t.Errorf("renewed a lost lock: %v", err)
			}
		}

		again := e.next(amqpAccepter{e.connection()})
		equal(t, "delivery count", e.take(again, 1)[0].DeliveryCount, 2)
	})
}

func TestReceiversDeadLetterWithAReason(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		c := e.client()
		e.send(e.sender(c, "events"), "a", "1", "2")
		r := e.next(a)
		must(t, r.DeadLetterMessage(e.ctx, e.take(r, 1)[0], &azservicebus.DeadLetterOptions{
			Reason: pointer("Poison"), ErrorDescription: pointer("no such field"),
		}))

		// The session continues.
		equal(t, "next message", e.take(r, 1)[0].MessageID, "2")

		dead, err := c.NewReceiverForSubscription("events", "projector", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
		must(t, err)

		m := e.take(dead, 1)[0]
		equal(t, "dead letter", m.MessageID, "1")
		equal(t, "reason", *m.DeadLetterReason, "Poison")
		equal(t, "description", *m.DeadLetterErrorDescription, "no such field")
	})
}

// TestCloseReleasesTheSession: a close counts no delivery, and the session is free
// immediately, both with received messages and with messages on their way.
func TestCloseReleasesTheSession(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1", "2", "3")

		for range 3 {
			r := e.next(a)
			first := e.take(r, 1)[0]
			equal(t, "message", first.MessageID, "1")
			equal(t, "delivery count", first.DeliveryCount, 1)
			must(t, r.Close(e.ctx))
		}

		r := e.next(a)
		equal(t, "order", fmt.Sprint(ids(e.take(r, 3))), "[1 2 3]")
	})
}

// TestReceiversRoundRobin: TestSessionReceiver_roundRobin of the SDK.
func TestReceiversRoundRobin(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		s := e.sender(e.client(), "events")

		for i := range 5 {
			e.send(s, fmt.Sprint("session", i), fmt.Sprint(i, "/1"), fmt.Sprint(i, "/2"))
		}

		seen := map[string]bool{}

		var held []sessionReceiver

		for range 5 {
			r := e.next(a)
			seen[r.SessionID()] = true
			held = append(held, r)
		}

		equal(t, "sessions", len(seen), 5)

		if _, err := a.accept(e.ctx, time.Second); !a.noSession(err) {
			t.Fatalf("a sixth session: %v", err)
		}

		for _, r := range held {
			for _, m := range e.take(r, 2) {
				equal(t, "session", *m.SessionID, r.SessionID())
				must(t, r.CompleteMessage(e.ctx, m, nil))
			}

			must(t, r.Close(e.ctx))
		}
	})
}

// TestReceiversTakeLargeMessages receives a message of many frames.
func TestReceiversTakeLargeMessages(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		body := strings.Repeat("0123456789abcdef", 15<<10)
		m := message("large", "a")
		m.Body = []byte(body)
		must(t, e.sender(e.client(), "events").SendMessage(e.ctx, m, nil))

		r := e.next(a)
		got := e.take(r, 1)[0]

		if string(got.Body) != body {
			t.Fatalf("body of %d bytes differs", len(got.Body))
		}

		must(t, r.CompleteMessage(e.ctx, got, nil))
	})
}

// TestDetachedReceiversLoseTheirSession covers TestSessionReceiver_Detach of the SDK,
// whose receiver attaches again by itself. A consumer that guards its writes must learn of
// the loss.
func TestDetachedReceiversLoseTheirSession(t *testing.T) {
	withBoth(t, func(e *env, a accepter) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1")
		r := e.next(a)
		must(t, r.CompleteMessage(e.ctx, e.take(r, 1)[0], nil))

		go func() {
			wait(time.Second)
			must(t, e.DetachLinks(queue, "amqp:link:detach-forced"))
		}()

		ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
		defer cancel()

		if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || ctx.Err() != nil {
			t.Fatalf("received %v, %v after the detach", ids(got), err)
		}
	})
}
