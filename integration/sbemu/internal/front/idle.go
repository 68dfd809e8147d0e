package front

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// The service's idle timeouts (documented: AMQP errors in Azure Service Bus, AMQP
// protocol guide).
const (
	firstLinkTimeout = time.Minute      // a connection that never had a link
	noLinkTimeout    = 5 * time.Minute  // a connection without links
	linkIdleTimeout  = 10 * time.Minute // an unused link

	// watchInterval is the time between two checks for idleness and expired tokens.
	watchInterval = 10 * time.Second
)

// watch closes the connection when it is idle, and detaches links that are idle or whose token
// has expired. It runs on a timer until the connection ends.
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
	ends := c.endings(now)
	c.watcher.Reset(watchInterval)
	c.mu.Unlock()

	if alone {
		c.closeWith(wire.Errorf(broker.CondConnectionForced, "The connection was inactive for more than the allowed %d milliseconds "+
			"and is closed by container 'sbemu'.", limit.Milliseconds()))

		return
	}

	for _, end := range ends {
		end()
	}
}

// endings returns functions that detach the links that must end: those to entities, and those that send
// requests to management nodes. The caller holds the lock.
func (c *conn) endings(now time.Time) (ends []func()) {
	for l := range c.senders {
		rights := access.Send
		if l.destination == nil {
			rights = access.All
		}

		if reason := c.reason(l.path(), rights, now.Sub(l.usedAt), "publisher"); reason != nil {
			ends = append(ends, func() { l.detach(reason) })
		}
	}

	for _, l := range c.names {
		idle := now.Sub(l.usedAt)
		if l.credit > 0 { // it waits for messages
			idle = 0
		}

		if reason := c.reason(entityPath(l.attach.Source.Address), access.Listen, idle, "consumer"); reason != nil {
			ends = append(ends, func() {
				l.receiver.Close()
				l.Detach(reason)
			})
		}
	}

	return ends
}

// reason returns why a link must end, or nil: it was unused for linkIdleTimeout, or its token has
// expired (Azure/azure-sdk-for-go#16695, dapr/components-contrib#809).
func (c *conn) reason(path string, rights access.Rights, idle time.Duration, what string) *wire.Error {
	switch {
	case !c.grants.allows(path, rights):
		return wire.Errorf(broker.CondDetachForced, "The link is force detached. Code: RenewToken. Details: %s.", unclaimed(rights, path))
	case idle >= linkIdleTimeout:
		return wire.Errorf(broker.CondDetachForced, "The link is force detached. Code: %s. Details: Idle timeout: 00:10:00.", what)
	}

	return nil
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
