package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// drainBroken is how long a broken connection stays open for the answers of its other
// sends.
const drainBroken = 5 * time.Second

// newBackoff gives the backoff between attempts to connect, and between attempts to send
// the same batch.
func newBackoff() poll.Backoff {
	return poll.Backoff{First: 50 * time.Millisecond, Max: 10 * time.Second}
}

// connection is one open sender.
type connection struct {
	sender Sender
	slot   int
	broken chan struct{} // closed by the first error that shows a broken connection
	idle   chan struct{} // closed when it is broken and the last send has returned

	// Guarded by connections.mu.
	sends     int
	isBroken  bool
	hasServed bool // it has accepted a send
	failures  int  // in a row, of batches that had not failed before
}

// maxFailures is how many consecutive failures replace a connection. Only batches that had
// not failed before count. It is needed because the SDK does not always report that a link
// has ended.
const maxFailures = 3

// connections keeps a fixed number of connections open. A broken connection is replaced
// once, however many sends report it.
type connections struct {
	options  Options
	metrics  *Metrics
	activity *activity

	mu     sync.Mutex
	slots  []*connection // nil if there is none at the moment
	large  bool          // a large message is in flight, on the last slot
	failed int           // attempts to open one, of all slots, since the last that succeeded
	opened chan struct{} // closed, and made anew, when one opens
	group  sync.WaitGroup
}

func newConnections(options Options, activity *activity) *connections {
	return &connections{
		options:  options,
		metrics:  options.Metrics,
		activity: activity,
		slots:    make([]*connection, options.Connections),
		opened:   make(chan struct{}),
	}
}

// run keeps the connections open until ctx ends, then closes them. It passes a fatal fault
// in opening one to fail.
func (c *connections) run(ctx context.Context, fail context.CancelCauseFunc) {
	for slot := range c.slots {
		c.group.Go(func() {
			if err := c.keep(ctx, slot); err != nil {
				fail(err)
			}
		})
	}
	c.group.Wait()
}

// keep opens the connection of one slot, and opens it again whenever it is lost.
func (c *connections) keep(ctx context.Context, slot int) error {
	retry := newBackoff()
	for ctx.Err() == nil {
		conn, err := c.open(ctx, slot)
		if err == nil {
			c.options.Logger.Debug().Int("connection", slot).Msg("connected to the topic")
			select {
			case <-conn.broken:
			case <-expired(conn.sender):
				c.replace(conn, errExpired)
			case <-ctx.Done():
			}
			c.group.Go(func() { c.retire(ctx, conn) })
			// The lanes whose sends cost connections back off by themselves.
			retry.Reset()
			if c.served(conn) {
				continue
			}
		}
		wait := retry.Next()
		if err != nil && ctx.Err() == nil {
			switch fault, _ := faultOf(err); fault {
			case FaultFatal:
				if err := c.options.Availability.ConnectRefused(err); err != nil {
					return fmt.Errorf("connect to the topic: %w", err)
				}
			case FaultBusy:
				wait = max(wait, busyWait)
			}
			c.complain(err)
		}
		_ = poll.Wait(ctx, wait)
	}
	return nil
}

// errExpired says that a connection has an old key, which the broker accepts for a while.
var errExpired = errors.New("the key of the connection string has changed")

// expired returns a channel that is closed when a connection must be replaced although it
// works; nil if that never happens.
func expired(s Sender) <-chan struct{} {
	if e, ok := s.(interface{ Expired() <-chan struct{} }); ok {
		return e.Expired()
	}
	return nil
}

// complain logs a failed attempt to connect: the first since an attempt of any slot
// succeeded, and later ones ever less often.
func (c *connections) complain(err error) {
	c.mu.Lock()
	c.failed++
	failed := c.failed
	if !slices.ContainsFunc(c.slots, isOpen) {
		c.options.Availability.ConnectFailed(err)
	}
	c.mu.Unlock()
	if failed&(failed-1) == 0 {
		c.options.Logger.Warn().Err(err).Int("failures", failed).Msg("no connection to the topic; retrying")
	}
}

// open opens one connection and offers it to the workers.
func (c *connections) open(ctx context.Context, slot int) (*connection, error) {
	connectCtx, cancel := context.WithTimeout(ctx, c.options.SendTimeout)
	defer cancel()
	returned := c.activity.begin()
	sender, err := c.options.Connect(connectCtx)
	returned()
	if err != nil {
		return nil, err
	}
	c.options.Availability.Connected()
	conn := &connection{sender: sender, slot: slot, broken: make(chan struct{}), idle: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots[slot] = conn
	c.failed = 0
	close(c.opened)
	c.opened = make(chan struct{})
	c.metrics.connections.Inc()
	return conn, nil
}

// acquire gives the connection with the fewest unanswered sends, and waits if none is open. A
// large message occupies its link for long, and the SDK keeps its buffer as long as the link.
// So large messages use the last slot only, and the other sends then avoid that slot. The
// error is the cause of ctx's end.
func (c *connections) acquire(ctx context.Context, large bool) (*connection, error) {
	for {
		c.mu.Lock()
		slots := c.slots
		if last := len(slots) - 1; large {
			slots = slots[last:]
		} else if c.large && slices.ContainsFunc(slots[:last], isOpen) {
			slots = slots[:last]
		}
		var best *connection
		for _, conn := range slots {
			if conn != nil && (best == nil || conn.sends < best.sends) {
				best = conn
			}
		}
		if best != nil {
			best.sends++
			c.large = c.large || large
			c.mu.Unlock()
			return best, nil
		}
		opened := c.opened
		c.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func isOpen(conn *connection) bool { return conn != nil }

// release returns a connection after one send, and replaces it if the send's error says
// that it is broken. fresh says that the batch had not failed before.
func (c *connections) release(conn *connection, err error, fresh, large bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.sends--
	if large {
		c.large = false
	}
	if err == nil {
		conn.hasServed = true
		conn.failures = 0
	} else {
		fault, broken := faultOf(err)
		if fresh && fault != FaultBusy && fault != FaultTooLarge {
			conn.failures++
		}
		if broken || conn.failures >= maxFailures {
			c.discard(conn, err)
		}
	}
	if conn.isBroken && conn.sends == 0 {
		close(conn.idle)
	}
}

// replace stops using a connection; keep opens another one.
func (c *connections) replace(conn *connection, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.isBroken {
		return
	}
	c.discard(conn, reason)
	if conn.sends == 0 {
		close(conn.idle)
	}
}

// discard stops using a connection. Without a reason it is no longer needed. The caller holds
// the mutex.
func (c *connections) discard(conn *connection, reason error) {
	if conn.isBroken {
		return
	}
	conn.isBroken = true
	c.slots[conn.slot] = nil
	close(conn.broken)
	c.metrics.connections.Dec()
	switch {
	case reason == nil:
	case errors.Is(reason, errExpired):
		c.options.Logger.Info().Int("connection", conn.slot).Msg("the key of the connection string has changed; replacing a connection to the topic")
	default:
		c.options.Logger.Warn().Err(reason).Int("connection", conn.slot).
			Msg("connection to the topic lost; replacing it")
	}
}

func (c *connections) served(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return conn.hasServed
}

// retire closes a connection that is broken or no longer needed.
func (c *connections) retire(ctx context.Context, conn *connection) {
	timer := time.NewTimer(drainBroken)
	defer timer.Stop()
	select {
	case <-conn.idle:
	case <-timer.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.discard(conn, nil)
	c.mu.Unlock()
	closeCtx, cancel := c.options.Closing()
	defer cancel()
	if err := conn.sender.Close(closeCtx); err != nil {
		c.options.Logger.Debug().Err(err).Int("connection", conn.slot).Msg("connection to the topic not closed cleanly")
	}
}
