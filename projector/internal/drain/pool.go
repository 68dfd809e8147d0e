package drain

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// strikesOut is how many consecutive failures replace a connection.
const strikesOut = 2

// pool spreads accepts and sessions over connections. If a connection does not work, or its
// key has changed, the pool replaces it once, for all its users.
type pool struct {
	dial    func() (Connection, error)
	metrics *metrics
	log     zerolog.Logger

	mu    sync.Mutex
	conns []*pooled
	// closing counts the replaced connections that are still used or being closed.
	closing sync.WaitGroup
}

type pooled struct {
	Connection
	// users counts accepts and sessions, accepting only the accepts.
	users, accepting int
	strikes          int
	retired          bool
}

func newPool(size int, dial func() (Connection, error), m *metrics, log zerolog.Logger) *pool {
	return &pool{dial: dial, metrics: m, log: log, conns: make([]*pooled, size)}
}

// take returns the connection with the fewest accepts, then the fewest sessions, for one
// accept. The caller reports the end of the accept.
func (p *pool) take() (*pooled, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, c := range p.conns {
		if c != nil && c.Expired() {
			p.retire(c)
			c = nil
		}
		if c == nil {
			fresh, err := p.dial()
			if err != nil {
				return nil, fmt.Errorf("open a connection: %w", err)
			}
			c = &pooled{Connection: fresh}
			p.conns[i] = c
		}
		if best < 0 || c.accepting < p.conns[best].accepting ||
			c.accepting == p.conns[best].accepting && c.users < p.conns[best].users {
			best = i
		}
	}
	c := p.conns[best]
	c.users++
	c.accepting++
	return c, nil
}

// answered records the end of an accept on c that the broker answered.
func (p *pool) answered(c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.accepting--
	c.strikes = 0
}

// failed records the end of an accept on c that was not answered. If it hung, the
// connection is replaced at once.
func (p *pool) failed(c *pooled, hung bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.accepting--
	c.strikes++
	if c.retired || !hung && c.strikes < strikesOut {
		return
	}
	p.retire(c)
	p.metrics.reconnects.Inc()
	p.log.Warn().Bool("hung", hung).Msg("connection to the broker replaced")
}

// stopped records the end of an accept on c that was cancelled.
func (p *pool) stopped(c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.accepting--
}

// release ends one use of c.
func (p *pool) release(c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.users--
	if c.users == 0 && c.retired {
		p.closing.Go(func() { p.close(c) })
	}
}

// retire takes c out of the pool. It is closed when nobody uses it. The caller holds the lock.
func (p *pool) retire(c *pooled) {
	c.retired = true
	for i := range p.conns {
		if p.conns[i] == c {
			p.conns[i] = nil
		}
	}
	if c.users == 0 {
		p.closing.Go(func() { p.close(c) })
	}
}

func (p *pool) close(c *pooled) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		p.log.Debug().Err(err).Msg("connection not closed cleanly")
	}
}

// shutdown closes all connections, within the given time. Later ones end with the process.
func (p *pool) shutdown(within time.Duration) {
	p.mu.Lock()
	for i, c := range p.conns {
		if c != nil {
			c.retired = true
			p.closing.Go(func() { p.close(c) })
		}
		p.conns[i] = nil
	}
	p.mu.Unlock()
	waitFor(&p.closing, within)
}

// waitFor waits for a group, and reports whether it ended in time.
func waitFor(all interface{ Wait() }, within time.Duration) bool {
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
