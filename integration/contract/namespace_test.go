package contract_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/sbemutest"
	"github.com/penstock-cdc/penstock/pkg/sbus"
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

// virtualWebSocket is virtual with AMQP over WebSockets, by the services' own dialer.
func virtualWebSocket(t *testing.T, cfg sbemu.Config, test func(e *env)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg.Listener = sbemutest.NewListener() // nobody dials plain AMQP
		web := sbemutest.NewListener()
		var opened atomic.Int64
		e := serve(t, cfg, func(ctx context.Context) (net.Conn, error) {
			c, err := sbus.OpenWebSocket(ctx, "sbemu.example", &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true,
				DialTLSContext:    func(ctx context.Context, _, _ string) (net.Conn, error) { return web.Dial(ctx) },
			}})
			if err == nil {
				opened.Add(1)
			}

			return c, err
		})
		server := &http.Server{Handler: e.WebHandler(), ReadHeaderTimeout: time.Minute}
		served := make(chan error)

		go func() { served <- server.Serve(web) }()

		t.Cleanup(func() {
			if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		test(e)
		synctest.Wait()

		if opened.Load() == 0 {
			t.Error("no WebSocket was opened")
		}
	})
}

// each runs a test in virtual time over plain AMQP and over WebSockets.
func each(t *testing.T, cfg sbemu.Config, test func(e *env)) {
	t.Helper()
	t.Parallel()
	t.Run("plain", func(t *testing.T) { virtual(t, cfg, test) })
	t.Run("websocket", func(t *testing.T) { virtualWebSocket(t, cfg, test) })
}

func serve(t *testing.T, cfg sbemu.Config, dial func(context.Context) (net.Conn, error)) *env {
	t.Helper()

	return &env{Server: sbemutest.Start(t, cfg), t: t, ctx: t.Context(), dial: dial}
}

// client returns a client of the SDK that does not retry.
func (e *env) client() *azservicebus.Client {
	e.t.Helper()

	opts := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	if e.dial != nil {
		opts.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return e.dial(ctx)
		}
	}

	c, err := azservicebus.NewClientFromConnectionString(e.ConnectionString(), opts)
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

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.After(d) }

func pointer[T any](v T) *T { return &v }
