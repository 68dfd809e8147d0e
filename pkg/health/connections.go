package health

import (
	"net"
	"net/http"
	"sync"
)

// connections bounds the open connections of a server. When a new connection exceeds the
// bound, it closes the connection that has waited for a request for the longest time. If
// all other connections have a request, it closes the one with the oldest request. So
// clients that keep connections open cannot keep a probe from its answer.
type connections struct {
	max int

	mu sync.Mutex
	// open has the place of every connection.
	open map[net.Conn]place
	// changes counts the changes of places.
	changes uint64
}

// place is where a connection stands. busy says that it has a request that is not answered.
// A connection without a complete request header waits.
type place struct {
	busy  bool
	since uint64 // the change
}

func newConnections(limit int) *connections {
	return &connections{max: limit, open: make(map[net.Conn]place)}
}

// changed is the server's ConnState. net/http reports StateActive when it has read a
// complete header.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.open[conn]
	delete(c.open, conn)
	if state == http.StateNew || known && (state == http.StateIdle || state == http.StateActive) {
		c.changes++
		c.open[conn] = place{busy: state == http.StateActive, since: c.changes}
	}
	if len(c.open) <= c.max {
		return
	}
	var victim net.Conn
	for other, at := range c.open {
		oldest := c.open[victim]
		if other != conn && (victim == nil || oldest.busy && !at.busy || oldest.busy == at.busy && at.since < oldest.since) {
			victim = other
		}
	}
	delete(c.open, victim)
	_ = victim.Close() // Its goroutine ends with the error of its read or write.
}
