package front

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// The service's idle timeouts (documented: AMQP errors in Azure Service Bus, AMQP
// protocol guide).
const (
	firstLinkTimeout = time.Minute      // a connection that never had a link
	noLinkTimeout    = 5 * time.Minute  // a connection without links
	linkIdleTimeout  = 10 * time.Minute // an unused link

	// watchInterval is the time between two checks for idleness.
	watchInterval = 10 * time.Second
)

// watch closes the connection when it is idle, and detaches idle links. It
// runs on a timer until the connection ends.
func (c *conn) watch() {
	now := time.Now()

	c.mu.Lock()

	if c.stopped {
		c.mu.Unlock()

		return
	}

	limit := noLinkTimeout
	if !c.hadLinks {
		limit = firstLinkTimeout
	}

	alone := c.links == 0 && now.Sub(c.linklessSince) >= limit
	senders, receivers := c.idleLinks(now)
	c.watcher.Reset(watchInterval)
	c.mu.Unlock()

	if alone {
		c.closeWith(wire.Errorf(broker.CondConnectionForced, "The connection was inactive for more than the allowed %d milliseconds "+
			"and is closed by container 'sbemu'.", limit.Milliseconds()))

		return
	}

	for _, l := range senders {
		l.detach(errIdle("publisher"))
	}

	for _, l := range receivers {
		l.receiver.Close()
		l.Detach(errIdle("consumer"))
	}
}

// idleLinks returns the links that were unused for linkIdleTimeout: those to entities, and
// those that send requests to management nodes. A receiver with credit waits for messages,
// so it is not idle. The caller holds the lock.
func (c *conn) idleLinks(now time.Time) (senders []*incoming, receivers []*outgoing) {
	for l := range c.senders {
		if now.Sub(l.usedAt) >= linkIdleTimeout {
			senders = append(senders, l)
		}
	}

	for _, l := range c.names {
		if l.credit == 0 && now.Sub(l.usedAt) >= linkIdleTimeout {
			receivers = append(receivers, l)
		}
	}

	return senders, receivers
}

func errIdle(what string) *wire.Error {
	return wire.Errorf(broker.CondDetachForced, "The link is force detached. Code: %s. Details: Idle timeout: 00:10:00.", what)
}

// linked adds n to the connection's number of links.
func (c *conn) linked(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.links += n
	c.hadLinks = true

	if c.links == 0 {
		c.linklessSince = time.Now()
	}
}
