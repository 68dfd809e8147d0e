package engine

import (
	"context"
	"fmt"
	"sync"
)

// calls counts the running calls for each set of targets. The zero value is ready.
type calls struct {
	mu    sync.Mutex
	under map[*snapshot]int
	// ended is closed, and replaced, when the last call with a set ends.
	ended chan struct{}
}

// begin begins a call and returns the present targets for it. The call ends with end.
func (e *Engine) begin() (targets snapshot, end func()) {
	c := &e.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	now := e.targets.Load()
	if now == nil {
		return nil, func() {}
	}
	if c.under == nil {
		c.under = make(map[*snapshot]int)
	}
	c.under[now]++
	return *now, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.under[now]--; c.under[now] > 0 {
			return
		}
		delete(c.under, now)
		if c.ended != nil {
			close(c.ended)
			c.ended = nil
		}
	}
}

// Drained waits until all calls that began before the last [Engine.Set] have ended. After
// that, an event counts as done only under the present targets. If ctx ends first, the
// error is its cause.
func (e *Engine) Drained(ctx context.Context) error {
	for {
		ended, n := e.calls.older(e.targets.Load())
		if n == 0 {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d calls of the engine with earlier targets: %w", n, context.Cause(ctx))
		}
	}
}

// older counts the calls whose targets are not the present ones.
func (c *calls) older(now *snapshot) (ended <-chan struct{}, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, under := range c.under {
		if s != now {
			n += under
		}
	}
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	return c.ended, n
}
