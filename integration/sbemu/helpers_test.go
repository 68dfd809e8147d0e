package sbemu_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/sbemutest"
)

// queue is the path of the default configuration's subscription.
const queue = "events/Subscriptions/projector"

// env is a server with the helpers of a test.
type env struct {
	*sbemu.Server

	t    *testing.T
	ctx  context.Context //nolint:containedctx // of the test
	dial func(context.Context) (net.Conn, error)
}

// virtual runs a test in virtual time, against a server in memory.
func virtual(t *testing.T, cfg sbemu.Config, test func(e *env)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sbemutest.NewListener()
		cfg.Listener = l
		test(serve(t, cfg, l.Dial))
		synctest.Wait()
	})
}

// socket runs a test against a server on a loopback port.
func socket(t *testing.T, cfg sbemu.Config) *env {
	t.Helper()

	return serve(t, cfg, nil)
}

func serve(t *testing.T, cfg sbemu.Config, dial func(context.Context) (net.Conn, error)) *env {
	t.Helper()

	return &env{Server: sbemutest.Start(t, cfg), t: t, ctx: t.Context(), dial: dial}
}

// client returns a client of the SDK that does not retry.
func (e *env) client() *azservicebus.Client { return e.clientFor(e.ConnectionString()) }

func (e *env) clientFor(connectionString string) *azservicebus.Client {
	e.t.Helper()

	opts := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	if e.dial != nil {
		opts.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return e.dial(ctx)
		}
	}

	c, err := azservicebus.NewClientFromConnectionString(connectionString, opts)
	must(e.t, err)
	e.t.Cleanup(func() {
		// The test's context has ended here. Do not wait long for connections that are
		// lost.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()

		_ = c.Close(ctx)
	})

	return c
}

func must(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

func (e *env) sender(c *azservicebus.Client, entity string) *azservicebus.Sender {
	e.t.Helper()

	s, err := c.NewSender(entity, nil)
	must(e.t, err)

	return s
}

// message returns a message with its id as the body. An empty session means none.
func message(id, session string) *azservicebus.Message {
	m := &azservicebus.Message{Body: []byte(id), MessageID: &id}
	if session != "" {
		m.SessionID = &session
	}

	return m
}

// send sends messages of a session, one after the other.
func (e *env) send(s *azservicebus.Sender, session string, ids ...string) {
	e.t.Helper()

	for _, id := range ids {
		must(e.t, s.SendMessage(e.ctx, message(id, session), nil))
	}
}

// receiver is the common part of the SDK's receivers.
type receiver interface {
	ReceiveMessages(ctx context.Context, limit int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error
	AbandonMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.AbandonMessageOptions) error
	DeferMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeferMessageOptions) error
	DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error
}

// receive receives n messages, one at a time, so that no credit is left over.
func (e *env) receive(r receiver, n int) []*azservicebus.ReceivedMessage {
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

// empty checks that no message can be received.
func (e *env) empty(r receiver) {
	e.t.Helper()

	ctx, cancel := context.WithTimeout(e.ctx, time.Second)
	defer cancel()

	got, err := r.ReceiveMessages(ctx, 1, nil)
	if len(got) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		e.t.Fatalf("received %v, %v instead of nothing", ids(got), err)
	}
}

func (e *env) accept(c *azservicebus.Client, session string) *azservicebus.SessionReceiver {
	e.t.Helper()

	r, err := c.AcceptSessionForSubscription(e.ctx, "events", "projector", session, nil)
	must(e.t, err)

	return r
}

func (e *env) acceptNext(c *azservicebus.Client) *azservicebus.SessionReceiver {
	e.t.Helper()

	r, err := c.AcceptNextSessionForSubscription(e.ctx, "events", "projector", nil)
	must(e.t, err)

	return r
}

func ids(msgs []*azservicebus.ReceivedMessage) []string {
	out := make([]string, 0, len(msgs))
	for _, m := range msgs {
		out = append(out, m.MessageID)
	}

	return out
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()

	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// code checks that an error is one of the SDK's, with that code.
func code(t *testing.T, err error, want azservicebus.Code) {
	t.Helper()

	var sbErr *azservicebus.Error
	if !errors.As(err, &sbErr) || sbErr.Code != want {
		t.Fatalf("error is %v, want code %s", err, want)
	}
}

// condition checks that an error has an AMQP condition. For conditions that the SDK treats
// as a lost connection, it keeps only the text.
func condition(t *testing.T, err error, want amqp.ErrCond) {
	t.Helper()

	var amqpErr *amqp.Error
	if errors.As(err, &amqpErr) && amqpErr.Condition == want {
		return
	}

	if err == nil || !strings.Contains(err.Error(), "Condition: "+string(want)+",") {
		t.Fatalf("error is %v, want condition %s", err, want)
	}
}

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.After(d) }
