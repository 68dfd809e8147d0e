package publish

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

// drainBroken is how long the other sends of a broken connection may still get
// their answers before it is closed.
const drainBroken = 5 * time.Second

// newBackoff spaces the attempts to connect, and to send the same batch.
func newBackoff() backoff.Backoff {
	return backoff.Backoff{First: 50 * time.Millisecond, Most: 10 * time.Second}
}

// connection is one open sender.
type connection struct {
	sender Sender
	slot   int
	broken chan struct{} // closed with the first error that says so
	idle   chan struct{} // closed when it is broken and the last send has returned

	// Guarded by connections.mu.
	sends    int
	isBroken bool
	served   bool // it has sent something
}

// connections keeps a fixed number of connections open. A broken one is replaced
// once, however many sends report it.
type connections struct {
	options  Options
	metrics  *Metrics
	activity *activity

	mu     sync.Mutex
	slots  []*connection // nil where there is none at the moment
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

// run keeps the connections until ctx ends, and closes them. A fatal fault in
// opening one is handed to fail.
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

// keep opens the connection of one slot, again and again.
func (c *connections) keep(ctx context.Context, slot int) error {
	retry := newBackoff()
	for ctx.Err() == nil {
		conn, err := c.open(ctx, slot)
		if err == nil {
			c.options.Logger.Debug().Int("connection", slot).Msg("connected to the topic")
			select {
			case <-conn.broken:
			case <-ctx.Done():
			}
			c.group.Go(func() { c.retire(ctx, conn) })
			if c.hasServed(conn) {
				retry.Reset()
				continue
			}
		}
		wait := retry.Next()
		if err != nil && ctx.Err() == nil {
			switch fault, _ := faultOf(err); fault {
			case FaultFatal:
				return fmt.Errorf("connect to the topic: %w", err)
			case FaultBusy:
				wait = max(wait, busyWait)
			}
			c.complain(err)
		}
		_ = backoff.Wait(ctx, wait)
	}
	return nil
}

// complain tells of a failed attempt to connect: of the first of all slots since one
// succeeded, and then of ever fewer.
func (c *connections) complain(err error) {
	c.mu.Lock()
	c.failed++
	failed := c.failed
	c.mu.Unlock()
	if failed&(failed-1) == 0 {
		c.options.Logger.Warn().Err(err).Int("failures", failed).Msg("no connection to the topic; trying on")
	}
}

// open opens one connection and offers it to the workers.
func (c *connections) open(ctx context.Context, slot int) (*connection, error) {
	connectCtx, cancel := context.WithTimeout(ctx, c.options.SendTimeout)
	defer cancel()
	call := c.activity.begin()
	sender, err := c.options.Connect(connectCtx)
	c.activity.end(call)
	if err != nil {
		return nil, err
	}
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

// acquire gives the connection with the fewest unanswered sends, waiting for one
// where there is none. Its error is the cause of ctx's end.
func (c *connections) acquire(ctx context.Context) (*connection, error) {
	for {
		c.mu.Lock()
		var least *connection
		for _, conn := range c.slots {
			if conn != nil && (least == nil || conn.sends < least.sends) {
				least = conn
			}
		}
		if least != nil {
			least.sends++
			c.mu.Unlock()
			return least, nil
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

// release gives a connection back after one send, and takes it out of use where
// the send's error says that it is broken.
func (c *connections) release(conn *connection, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.sends--
	if err == nil {
		conn.served = true
	} else if _, broken := faultOf(err); broken && !conn.isBroken {
		conn.isBroken = true
		c.slots[conn.slot] = nil
		close(conn.broken)
		c.metrics.connections.Dec()
		c.options.Logger.Warn().Err(err).Int("connection", conn.slot).
			Msg("lost a connection to the topic; replacing it")
	}
	if conn.isBroken && conn.sends == 0 {
		close(conn.idle)
	}
}

func (c *connections) hasServed(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return conn.served
}

// retire closes a connection that is broken, or any at the end.
func (c *connections) retire(ctx context.Context, conn *connection) {
	timer := time.NewTimer(drainBroken)
	defer timer.Stop()
	select {
	case <-conn.idle:
	case <-timer.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	if !conn.isBroken {
		conn.isBroken = true
		c.slots[conn.slot] = nil
		c.metrics.connections.Dec()
	}
	c.mu.Unlock()
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.CloseTimeout)
	defer cancel()
	if err := conn.sender.Close(closeCtx); err != nil {
		c.options.Logger.Debug().Err(err).Int("connection", conn.slot).Msg("closing a connection to the topic ended badly")
	}
}
