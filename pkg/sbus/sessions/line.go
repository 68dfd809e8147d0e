package sessions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/rs/zerolog"
)

const (
	// openTimeout bounds one attempt to connect, with the claims.
	openTimeout = 30 * time.Second
	// endTimeout is how long the end of an AMQP session may take.
	endTimeout = 5 * time.Second
)

// line is an open AMQP connection.
type line struct {
	namespace Namespace
	path      string
	log       zerolog.Logger
	conn      *amqp.Conn
	socket    net.Conn
	// stop ends the renewal of claims; background waits for it and for the ends of AMQP
	// sessions.
	stop       context.CancelFunc
	background sync.WaitGroup

	// managing is a lock with one place; the goroutine that uses node holds it.
	managing chan struct{}
	node     *requests

	mu sync.Mutex
	// closing is set when no further background work may start.
	closing bool
	// free are AMQP sessions without a link, for later accepts. There are at most as many
	// as sessions that were held at the same time.
	free []*amqp.Session
}

// openLine connects and puts the claims.
func openLine(ctx context.Context, o *Options, path string) (*line, error) {
	host := o.Namespace.Host()
	var socket net.Conn
	var err error
	if o.Dial != nil {
		socket, err = o.Dial(ctx)
	} else {
		socket, err = dial(ctx, host, o.Namespace.Plain(), o.TLS)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", host, err)
	}
	buffered := newTransport(socket)
	conn, err := amqp.NewConn(ctx, buffered, &amqp.ConnOptions{
		SASLType:    amqp.SASLTypeAnonymous(),
		HostName:    host,
		MaxSessions: 65535,
		Properties: map[string]any{
			"product": "penstock", "platform": runtime.GOOS, "framework": runtime.Version(),
		},
	})
	if err != nil {
		_ = buffered.Close()
		return nil, fmt.Errorf("open an AMQP connection to %s: %w", host, err)
	}
	life, stop := context.WithCancel(context.Background())
	l := &line{
		namespace: o.Namespace, path: path, log: o.Logger, conn: conn, socket: socket,
		stop: stop, managing: make(chan struct{}, 1),
	}
	expires, err := l.claim(ctx)
	if err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	l.background.Go(func() { l.keepClaims(life, expires) })
	return l, nil
}

// alive reports whether the connection is open.
func (l *line) alive() bool {
	select {
	case <-l.conn.Done():
		return false
	default:
		return true
	}
}

// close closes the connection. If ctx ends first, it closes the socket, which aborts every
// wait for the broker.
func (l *line) close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.stop()
	force := context.AfterFunc(ctx, func() { _ = l.socket.Close() })
	defer force()
	err := l.conn.Close()
	l.managing <- struct{}{} // the closed connection fails its holder
	if l.node != nil {
		l.node.closed()
		<-l.node.ended
	}
	<-l.managing
	l.background.Wait()
	return err
}

// take gives an AMQP session without a link, and reports whether that session has been used
// before.
func (l *line) take(ctx context.Context) (*amqp.Session, bool, error) {
	l.mu.Lock()
	if n := len(l.free); n > 0 {
		channel := l.free[n-1]
		l.free = l.free[:n-1]
		l.mu.Unlock()
		return channel, true, nil
	}
	l.mu.Unlock()
	channel, err := l.conn.NewSession(ctx, nil)
	return channel, false, err
}

// keep keeps an AMQP session for the next accept. Its link must be detached and every
// delivery on it settled, because go-amqp keeps unsettled deliveries as long as the AMQP
// session.
func (l *line) keep(channel *amqp.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, channel)
}

// end ends an AMQP session and everything attached to it, in the background. Closing the
// connection does the same.
func (l *line) end(channel *amqp.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return
	}
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if err := channel.Close(ctx); err != nil && l.alive() {
			l.log.Debug().Err(err).Msg("AMQP session not ended cleanly")
		}
	})
}
