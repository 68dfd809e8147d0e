package sessions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// ErrNoSession is the broker's answer that no session of the subscription is free and
// has messages. The connection works.
var ErrNoSession = errors.New("no session is available")

// ErrClosed reports that the connection was closed by its owner.
var ErrClosed = fmt.Errorf("the connection is closed: %w", context.Canceled)

// Namespace is a Service Bus namespace, as far as a connection needs it. [*sbus.Namespace]
// implements it.
type Namespace interface {
	// Host is the host name, with a port if it is not the protocol's.
	Host() string
	// Plain reports whether the broker speaks AMQP without TLS, as the emulator does.
	Plain() bool
	// Token makes a claim to an audience.
	Token(ctx context.Context, audience string) (sbus.Token, error)
}

var _ Namespace = (*sbus.Namespace)(nil)

// Options configure a connection.
type Options struct {
	// Namespace is required.
	Namespace Namespace
	// Topic and Subscription are names. The subscription must require sessions.
	Topic, Subscription string
	// TLS is used unless the namespace is plain; nil trusts the system's certificates.
	// ServerName is set to the namespace's host.
	TLS *tls.Config
	// Dial opens the connection below AMQP; nil means TCP, with TLS unless the namespace
	// is plain.
	Dial func(ctx context.Context) (net.Conn, error)
	// Logger is silent by default.
	Logger zerolog.Logger
}

// Connection accepts sessions of one subscription over one AMQP connection. It connects
// at the first Accept, and again at the first Accept after the connection was lost. The
// sessions of a lost connection are lost. It is safe for concurrent use. Make it with
// [New].
type Connection struct {
	options Options
	path    string
	// life ends with Close. It bounds what the connection starts by itself.
	life context.Context //nolint:containedctx // bounds background work
	stop context.CancelFunc
	// opening waits for attempts to connect.
	opening sync.WaitGroup

	mu      sync.Mutex
	current *line
	attempt *attempt
	closed  bool
}

// attempt is one attempt to connect. Concurrent accepts share it.
type attempt struct {
	done chan struct{}
	line *line
	err  error
}

// New makes a connection without a network request.
func New(o Options) *Connection {
	c := &Connection{options: o, path: o.Topic + "/Subscriptions/" + o.Subscription}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

// open gives the line, and connects if there is none.
func (c *Connection) open(ctx context.Context) (*line, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if c.current != nil && c.current.alive() {
		defer c.mu.Unlock()
		return c.current, nil
	}
	a := c.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		c.attempt = a
		lost := c.current
		c.current = nil
		c.opening.Go(func() { c.connect(a, lost) })
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.line, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect carries out an attempt. It does not depend on the context of the caller that
// began it, because other callers wait for the same attempt.
func (c *Connection) connect(a *attempt, lost *line) {
	if lost != nil {
		// Nothing of it needs the network any more.
		lost.close(c.life)
	}
	ctx, cancel := context.WithTimeout(c.life, openTimeout)
	defer cancel()
	a.line, a.err = openLine(ctx, &c.options, c.path)
	c.mu.Lock()
	c.attempt = nil
	c.current = a.line
	c.mu.Unlock()
	close(a.done)
}

// Close ends the connection and its sessions. It returns when ctx has ended at the latest,
// and then no goroutine waits for the broker.
func (c *Connection) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.opening.Wait()
	c.mu.Lock()
	current := c.current
	c.current = nil
	c.mu.Unlock()
	if current == nil {
		return nil
	}
	return current.close(ctx)
}
