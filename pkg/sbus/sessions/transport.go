package sessions

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// writeTimeout bounds one write to the socket. A peer that reads nothing for that
	// long is dead.
	writeTimeout = 15 * time.Second
	// lastWriteTimeout bounds the last write of a connection that is closed.
	lastWriteTimeout = time.Second
	// maxPending bounds the bytes that wait for the socket. A frame is 64 KiB at most.
	maxPending = 256 << 10
)

// dial opens a connection to the namespace: TLS on port 5671, or plain TCP on port 5672 for
// the emulator. A port in the host name overrides both.
func dial(ctx context.Context, host string, plain bool, trust *tls.Config) (net.Conn, error) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "5671"
		if plain {
			port = "5672"
		}
	}
	if plain {
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(name, port))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if trust != nil {
		config = trust.Clone()
	}
	config.ServerName = name
	dialer := tls.Dialer{Config: config}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(name, port))
}

// transport is a connection whose writes return before the socket has taken them. go-amqp
// writes each frame separately. A goroutine of the transport writes all pending frames with
// one system call and one TLS record.
//
// Write deadlines have no effect. go-amqp derives them from the contexts of its callers,
// and a write that misses its deadline closes the connection with all its sessions. The
// transport has a timeout of its own instead.
type transport struct {
	net.Conn

	mu sync.Mutex
	// changed is signalled at each change of the fields below.
	changed *sync.Cond
	pending []byte
	err     error
	closing bool
	// written is closed when the writing goroutine has ended.
	written chan struct{}
}

// newTransport starts the writing goroutine, which ends with Close or the first error.
func newTransport(c net.Conn) *transport {
	t := &transport{Conn: c, written: make(chan struct{})}
	t.changed = sync.NewCond(&t.mu)
	go t.run()
	return t
}

// Write implements [net.Conn]. It waits while too much is pending.
func (t *transport) Write(frame []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pending) >= maxPending && t.err == nil && !t.closing {
		t.changed.Wait()
	}
	switch {
	case t.err != nil:
		return 0, t.err
	case t.closing:
		return 0, net.ErrClosed
	}
	t.pending = append(t.pending, frame...)
	t.changed.Broadcast()
	return len(frame), nil
}

// SetWriteDeadline implements [net.Conn], and does nothing.
func (t *transport) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline implements [net.Conn] for reads.
func (t *transport) SetDeadline(at time.Time) error { return t.SetReadDeadline(at) }

// Close implements [net.Conn]. It writes what is pending, within lastWriteTimeout.
func (t *transport) Close() error {
	t.mu.Lock()
	t.closing = true
	t.changed.Broadcast()
	t.mu.Unlock()
	// A WebSocket has no write deadlines.
	force := time.AfterFunc(lastWriteTimeout, func() { _ = t.Conn.Close() })
	defer force.Stop()
	<-t.written
	return t.Conn.Close()
}

// run writes what is pending until the transport is closed or fails.
func (t *transport) run() {
	defer close(t.written)
	var frames []byte
	for {
		var ok bool
		if frames, ok = t.take(frames[:0]); !ok {
			return
		}
		if _, err := t.Conn.Write(frames); err != nil {
			t.mu.Lock()
			t.err = err
			t.changed.Broadcast()
			t.mu.Unlock()
			// This ends the reader too.
			_ = t.Conn.Close()
			return
		}
	}
}

// take waits for frames and takes all of them; spare becomes the buffer for the next
// frames. It returns false when the transport is closed and nothing is pending.
func (t *transport) take(spare []byte) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pending) == 0 {
		if t.closing {
			return nil, false
		}
		t.changed.Wait()
		// Goroutines that are ready to run may have frames, too. On idle cores there are none,
		// and this takes no time.
		t.mu.Unlock()
		runtime.Gosched()
		t.mu.Lock()
	}
	frames := t.pending
	t.pending = spare
	t.changed.Broadcast()
	_ = t.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	return frames, true
}
