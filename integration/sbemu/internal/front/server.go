package front

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Options configure a [Server].
type Options struct {
	Namespace *broker.Namespace

	// Policies returns the shared access keys that currently sign tokens.
	Policies func() []access.Policy

	// AcceptTimeout is how long an accept of the next available session waits if the
	// client sets no timeout.
	AcceptTimeout time.Duration

	// MaxConnections is how many connections may be open at the same time; zero means any
	// number.
	MaxConnections int
}

// Server serves a namespace over AMQP.
type Server struct {
	opts   Options
	Faults Faults

	nextConn atomic.Uint64
	group    sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
}

// NewServer returns a server that does not listen yet.
func NewServer(opts Options) *Server {
	return &Server{
		opts:      opts,
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
	}
}

// ErrClosed means that the server is closed.
var ErrClosed = errors.New("server is closed")

// Serve accepts connections until the listener or the server is closed.
func (s *Server) Serve(l net.Listener) error {
	if err := s.register(l); err != nil {
		return err
	}

	defer s.group.Done()

	for {
		c, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()

			delete(s.listeners, l)

			if s.closed {
				return ErrClosed
			}

			return fmt.Errorf("accept connection: %w", err)
		}

		s.start(c)
	}
}

func (s *Server) register(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed {
		_ = l.Close()

		return ErrClosed
	}

	s.listeners[l] = struct{}{}
	s.group.Add(1)

	return nil
}

// start serves one connection on a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	if c := s.accept(nc); c != nil {
		go s.serveConn(c)
	}
}

// ServeConn serves one connection until it ends.
func (s *Server) ServeConn(nc net.Conn) {
	if c := s.accept(nc); c != nil {
		s.serveConn(c)
	}
}

// accept registers a connection, unless the server is closed. The caller must run the
// returned connection.
func (s *Server) accept(nc net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed {
		_ = nc.Close()

		return nil
	}

	c := newConn(s, nc, s.nextConn.Add(1))
	c.surplus = s.opts.MaxConnections > 0 && s.counted() >= s.opts.MaxConnections
	s.conns[c] = struct{}{}
	s.group.Add(1)

	return c
}

// counted returns how many connections count for the limit: all but those that exceed it and
// those that are closing, since a client may connect as soon as it has the answer to its close.
// The caller holds the lock.
func (s *Server) counted() int {
	n := 0

	for c := range s.conns {
		if !c.surplus && !c.closing.Load() {
			n++
		}
	}

	return n
}

func (s *Server) serveConn(c *conn) {
	defer s.group.Done()

	c.run()

	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Close closes the listeners and all connections, and waits for their goroutines. It does
// not close the namespace.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true

	var errs []error

	for l := range s.listeners {
		errs = append(errs, l.Close())

		// Close each listener only once, even if Close is called again before Serve has
		// returned.
		delete(s.listeners, l)
	}

	for c := range s.conns {
		c.closeWith(wire.Errorf(broker.CondConnectionForced, "The service is closing."))
	}

	s.mu.Unlock()
	s.group.Wait()

	return errors.Join(errs...)
}

// connections returns all open connections.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()

	out := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}

	return out
}

// newMessageID returns an id for a message that has none.
func newMessageID() string {
	var b [16]byte

	_, _ = rand.Read(b[:])

	return hex.EncodeToString(b[:])
}
