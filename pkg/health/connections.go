package health

import (
	"container/list"
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
	// waiting are the connections without a complete request header, busy those with a
	// request that is not answered; both from the oldest to the newest.
	waiting, busy *list.List
	// places has the place of every connection in one of the lists.
	places map[net.Conn]place
}

type place struct {
	list    *list.List
	element *list.Element
}

func newConnections(limit int) *connections {
	return &connections{max: limit, waiting: list.New(), busy: list.New(), places: make(map[net.Conn]place)}
}

// changed is the server's ConnState. net/http reports StateActive when it has read a
// complete header.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.places[conn]
	c.remove(conn)
	switch state {
	case http.StateNew:
		c.add(conn, c.waiting)
	case http.StateIdle:
		if known {
			c.add(conn, c.waiting)
		}
	case http.StateActive:
		if known {
			c.add(conn, c.busy)
		}
	case http.StateHijacked, http.StateClosed:
	}
	for len(c.places) > c.max {
		oldest := c.waiting.Front()
		if oldest == nil || oldest.Value == any(conn) {
			oldest = c.busy.Front()
		}
		victim := oldest.Value.(net.Conn)
		c.remove(victim)
		_ = victim.Close() // Its goroutine ends with the error of its read or write.
	}
}

func (c *connections) add(conn net.Conn, l *list.List) {
	c.places[conn] = place{l, l.PushBack(conn)}
}

func (c *connections) remove(conn net.Conn) {
	if p, ok := c.places[conn]; ok {
		p.list.Remove(p.element)
		delete(c.places, conn)
	}
}
