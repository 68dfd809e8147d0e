package front

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

const (
	maxFrameSize     = 64 << 10
	channelMax       = 4999            // as in the service's open frame
	idleTimeout      = 2 * time.Minute // announced; the server allows twice as long
	handshakeTimeout = 20 * time.Second
	closeTimeout     = 5 * time.Second

	// outputHigh is the number of bytes of pending output at which links stop getting
	// messages. outputLimit is the maximum of pending bytes.
	outputHigh  = 1 << 20
	outputLimit = 64 << 20
)

// conn is one connection of a client.
type conn struct {
	srv    *Server
	id     uint64
	net    net.Conn
	frames *wire.FrameReader
	grants grants

	// Used only by the goroutine that handles frames.
	sessions  map[uint16]*session
	replies   *replies
	cbsLinks  [2]link // the links to $cbs, by the client's role
	container string
	peerFrame int // largest frame that the client accepts
	peerIdle  time.Duration

	delay     delayLine
	opened    atomic.Bool // the handshake is complete
	closeRead atomic.Bool // the client closed
	closing   atomic.Bool // a close was sent, or the connection dropped

	mu      sync.Mutex // guards the fields below, and the outgoing links
	output  []byte
	waiting int // bytes that the writer has taken and not yet written
	held    int // bytes of replies that wait for credit
	stopped bool
	settled settledRange
	blocked []*outgoing          // links that wait for output room, a window or the end of throttling
	names   map[string]*outgoing // receiving links by name
	senders map[*incoming]struct{}

	// surplus is set if the connection exceeds the limit. It is closed with the reason
	// after the handshake.
	surplus bool

	// State of the idleness watch.
	watcher       *time.Timer
	links         int
	hadLinks      bool
	linklessSince time.Time

	wake chan struct{}
}

func newConn(s *Server, nc net.Conn, id uint64) *conn {
	return &conn{
		srv:       s,
		id:        id,
		net:       nc,
		frames:    wire.NewFrameReader(nc, maxFrameSize),
		sessions:  make(map[uint16]*session),
		replies:   newReplies(),
		names:     make(map[string]*outgoing),
		senders:   make(map[*incoming]struct{}),
		peerFrame: wire.MinMaxFrameSize,
		wake:      make(chan struct{}, 1),
	}
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer func() { _ = c.net.Close() }()

	if err := c.handshake(); err != nil {
		return
	}

	c.mu.Lock()
	c.linklessSince = time.Now()
	c.watcher = time.AfterFunc(watchInterval, c.watch)
	c.mu.Unlock()

	defer c.watcher.Stop()

	written := make(chan struct{})

	go func() {
		defer close(written)
		c.write()
	}()

	if c.surplus {
		c.closeWith(wire.Errorf(broker.CondResourceLimit, "ConnectionsQuotaExceeded for namespace: up to %d connections may be open.", c.srv.opts.MaxConnections))
	}

	err := c.read()
	c.delay.close()

	if failure := c.delay.failure.Load(); failure != nil {
		err = *failure
	}

	c.endSessions()
	_ = c.net.SetWriteDeadline(time.Now().Add(closeTimeout))

	var refused *wire.Error
	if errors.As(err, &refused) {
		c.sendClose(refused)
	}

	c.mu.Lock()
	c.stopped = true

	c.mu.Unlock()
	c.signal()
	<-written
}

// read reads frames and handles them, directly or through the delay line, until the
// connection ends.
func (c *conn) read() error {
	for !c.closeRead.Load() {
		if !c.frames.Buffered() {
			c.flush()
			_ = c.net.SetReadDeadline(time.Now().Add(2 * idleTimeout))

			if c.delay.ended.Load() { // this deadline has replaced the one that reported the end
				return io.EOF
			}
		}

		f, err := c.frames.Next()
		if err != nil {
			return readError(err)
		}

		if f.Type != wire.FrameAMQP {
			return wire.Errorf(broker.CondFramingError, "unexpected frame type %d", f.Type)
		}

		if len(f.Body) == 0 {
			continue
		}

		latency := time.Duration(c.srv.Faults.latencyIn.Load())
		if latency > 0 || c.delay.busy() {
			if err := c.delay.add(c, f, latency); err != nil {
				return err
			}

			continue
		}

		if err := c.handle(f.Channel, f.Body); err != nil {
			return err
		}
	}

	return nil
}

// readError distinguishes a malformed frame, which is reported to the client, from the
// end of the connection.
func readError(err error) error {
	switch {
	case errors.Is(err, wire.ErrFrame):
		return wire.Errorf(broker.CondFramingError, "%s", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.Errorf(broker.CondConnectionForced, "The connection was idle for longer than the idle timeout of %s.", idleTimeout)
	default:
		return io.EOF
	}
}

// handle handles the body of a frame.
func (c *conn) handle(channel uint16, body []byte) error {
	p, err := wire.Decode(body)
	if err != nil {
		return wire.Errorf(broker.CondDecodeError, "%s", err)
	}

	switch p := p.(type) {
	case *wire.Begin:
		return c.begin(channel, p)
	case *wire.Close:
		c.closeRead.Store(true)
		c.sendClose(nil)

		return nil
	}

	if s := c.sessions[channel]; s != nil {
		return s.handle(p)
	}

	return withoutSession(channel, p)
}

// withoutSession handles a frame on a channel that has no session. It ignores a detach,
// because clients may detach a link after the session's end. Any other frame is an error,
// as in the service's library (Azure/azure-amqp, AmqpConnection.cs).
func withoutSession(channel uint16, p wire.Performative) error {
	switch p.(type) {
	case *wire.Detach, *wire.End:
		return nil
	default:
		return wire.Errorf(broker.CondNotFound, "The session channel '%d' cannot be found.", channel)
	}
}

// begin begins a session. The server answers on the same channel number.
func (c *conn) begin(channel uint16, p *wire.Begin) error {
	if channel > channelMax {
		return wire.Errorf(broker.CondFramingError, "channel %d is over the limit of %d", channel, channelMax)
	}

	if c.sessions[channel] != nil {
		return wire.Errorf(broker.CondNotAllowed, "channel %d has a session already", channel)
	}

	s := newSession(c, channel, p)
	c.sessions[channel] = s

	c.mu.Lock()
	c.append(channel, &wire.Begin{
		RemoteChannel:  channel,
		Reply:          true,
		NextOutgoingID: 0,
		IncomingWindow: sessionWindow,
		OutgoingWindow: sessionWindow,
		HandleMax:      handleMax,
	})
	c.mu.Unlock()

	return nil
}

// endSessions ends all sessions because the connection ended.
func (c *conn) endSessions() {
	for _, s := range c.sessions {
		s.release()
	}

	clear(c.sessions)
}

// closeWith closes the connection with a reason. Other goroutines can call it.
func (c *conn) closeWith(reason *wire.Error) {
	if c.closing.Swap(true) {
		return
	}

	if !c.opened.Load() {
		_ = c.net.Close()

		return
	}

	_ = c.net.SetWriteDeadline(time.Now().Add(closeTimeout))

	c.mu.Lock()
	c.append(0, &wire.Close{Error: reason})
	c.stopped = true
	c.mu.Unlock()
	c.signal()

	// The writer sends the close and then ends the connection, which ends the reader.
}

// drop ends the connection without a close, like a broken network.
func (c *conn) drop() {
	c.closing.Store(true)

	if t, ok := c.net.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}

	_ = c.net.Close()
}

// sendClose sends a close, unless one was sent.
func (c *conn) sendClose(reason *wire.Error) {
	if c.closing.Swap(true) {
		return
	}

	c.flush()

	c.mu.Lock()
	c.append(0, &wire.Close{Error: reason})
	c.mu.Unlock()
	c.signal()
}

// flush sends the collected acceptances and all waiting output.
func (c *conn) flush() {
	c.mu.Lock()
	c.flushSettled()
	waiting := len(c.output) > 0
	c.mu.Unlock()

	if waiting {
		c.signal()
	}
}

// holder returns the connection's receiver that holds a session of a queue, or nil.
func (c *conn) holder(queue *broker.Queue, session string) *broker.Receiver {
	// A queue's lock comes before a connection's, so receivers are queried without the
	// connection's lock.
	var receivers []*broker.Receiver

	c.mu.Lock()

	for _, l := range c.names {
		if l.receiver != nil && l.receiver.Queue() == queue {
			receivers = append(receivers, l.receiver)
		}
	}

	c.mu.Unlock()

	for _, r := range receivers {
		if r.Holds(session) {
			return r
		}
	}

	return nil
}

// link returns the attached receiving link that a request names, or nil.
func (c *conn) link(name string) *outgoing {
	c.mu.Lock()
	defer c.mu.Unlock()

	l := c.names[name]
	if l != nil {
		l.usedAt = time.Now() // a request that names a link counts as use
	}

	return l
}
