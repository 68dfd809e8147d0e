package front

import (
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Connection describes an open connection of a client.
type Connection struct {
	ID          uint64   `json:"id"`
	ContainerID string   `json:"containerId"` // set by the client
	RemoteAddr  string   `json:"remoteAddr"`
	SendsTo     []string `json:"sendsTo"`      // entities, each once
	Receives    []string `json:"receivesFrom"` // entities, each once
}

// Connections returns the open connections, ordered by id.
func (s *Server) Connections() []Connection {
	var out []Connection

	for _, c := range s.connections() {
		if c.isOpen() {
			out = append(out, c.describe())
		}
	}

	slices.SortFunc(out, func(a, b Connection) int { return int(a.ID) - int(b.ID) })

	return out
}

// isOpen reports whether the handshake is complete and the connection is not closing.
func (c *conn) isOpen() bool { return c.opened.Load() && !c.closing.Load() }

func (c *conn) describe() Connection {
	d := Connection{ID: c.id, ContainerID: c.container, RemoteAddr: c.net.RemoteAddr().String()}

	c.mu.Lock()
	defer c.mu.Unlock()

	for l := range c.senders {
		if l.destination != nil {
			d.SendsTo = append(d.SendsTo, l.destination.Path())
		}
	}

	for _, l := range c.names {
		d.Receives = append(d.Receives, l.receiver.Queue().Path())
	}

	for _, entities := range []*[]string{&d.SendsTo, &d.Receives} {
		slices.Sort(*entities)
		*entities = slices.Compact(*entities)
	}

	return d
}

// Drop ends the connections that which selects, without a close, like a broken network.
// It returns their number.
func (s *Server) Drop(which func(Connection) bool) int {
	n := 0

	for _, c := range s.connections() {
		if c.isOpen() && which(c.describe()) {
			c.drop()

			n++
		}
	}

	return n
}

// DetachSenders detaches all links that send to an entity, or requests to a management
// node, with a reason. It returns their number.
func (s *Server) DetachSenders(entity string, reason *wire.Error) int {
	n := 0

	for _, c := range s.connections() {
		var links []*incoming

		c.mu.Lock()

		for l := range c.senders {
			if strings.EqualFold(l.path(), entity) {
				links = append(links, l)
			}
		}

		c.mu.Unlock()

		for _, l := range links {
			l.detach(reason)
		}

		n += len(links)
	}

	return n
}
