package front_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/front"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

const subscription = "events/Subscriptions/projector"

// pipes is a listener of in-memory connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}

	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// server is a server with a topic "events" with the session subscription
// "projector", and a queue "q".
type server struct {
	*front.Server

	t     testing.TB
	pipes pipes
}

func start(tb testing.TB) *server {
	tb.Helper()

	ns := broker.NewNamespace()

	for _, err := range []error{
		ns.CreateTopic(broker.TopicConfig{Name: "events", Subscriptions: []broker.SubscriptionConfig{
			{Name: "projector", QueueConfig: broker.QueueConfig{RequiresSession: true}},
		}}),
		ns.CreateQueue(broker.StandaloneConfig{Name: "q"}),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}

	s := &server{
		Server: front.NewServer(front.Options{
			Namespace:     ns,
			Policies:      func() []access.Policy { return []access.Policy{{Name: "p", Key: "k", Rights: access.All}} },
			AcceptTimeout: time.Minute,
		}),
		t:     tb,
		pipes: make(pipes),
	}
	done := make(chan struct{})

	go func() {
		defer close(done)

		_ = s.Serve(s.pipes)
	}()

	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}

		ns.Close()
		<-done
	})

	return s
}

func (s *server) pipe() net.Conn {
	client, srv := net.Pipe()
	s.pipes <- srv

	return client
}

// dial returns an authorized client with a session on channel 0.
func (s *server) dial() *rawclient.Client {
	s.t.Helper()

	nc := s.pipe()
	s.t.Cleanup(func() { _ = nc.Close() })

	c, err := rawclient.Open(nc)
	check(s.t, err)

	code, err := c.Authorize(0, "p", "k")
	check(s.t, err)

	if code != 202 {
		s.t.Fatalf("status of put-token is %d", code)
	}

	check(s.t, c.Begin(0))

	return c
}

func check(tb testing.TB, err error) {
	tb.Helper()

	if err != nil {
		tb.Fatal(err)
	}
}

// works checks that the server still serves other clients.
func (s *server) works() {
	s.t.Helper()

	c := s.dial()
	_, err := c.AttachSender(0, 0, "q")
	check(s.t, err)
	check(s.t, c.Send(0, rawclient.Transfer(0, 0, encode("x"))))

	d, err := rawclient.Expect[*wire.Disposition](c)
	check(s.t, err)

	if d.State.Code != wire.CodeAccepted {
		s.t.Fatalf("state is %+v", d.State)
	}

	check(s.t, c.Close())
}

// encode encodes a message with an id.
func encode(id string) []byte {
	b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{id})

	return wire.AppendBinary(wire.AppendDescriptor(b, wire.CodeData), []byte("body"))
}

func inBubble(t *testing.T, test func(s *server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(start(t))
	})
}
