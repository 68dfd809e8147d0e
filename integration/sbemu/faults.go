package sbemu

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/front"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Connection describes an open connection of a client.
type Connection = front.Connection

// SetLatency adds latency to all frames in each direction. It affects open connections too.
// Frames that are on their way keep their order.
func (s *Server) SetLatency(toServer, toClient time.Duration) {
	s.front.Faults.SetLatency(toServer, toClient)
}

// Throttle answers sends, management requests and accepts with com.microsoft:server-busy
// (error code 50009) for d.
func (s *Server) Throttle(d time.Duration) { s.front.Faults.Throttle(d) }

// RefuseSends refuses the next n sends to a topic or queue, or to any if entity is empty,
// with an error condition such as "amqp:internal-error". A batch is one send.
func (s *Server) RefuseSends(entity string, n int, condition string) {
	if n > 0 {
		s.front.Faults.RefuseSends(entity, n, ordered(condition))
	}
}

// RefuseMessages refuses each send with a message whose id matches, until
// [Server.ClearFaults], with an error condition such as "amqp:not-allowed". A batch is one
// send. Different goroutines call matches, but never concurrently.
func (s *Server) RefuseMessages(matches func(messageID string) bool, condition string) {
	s.front.Faults.RefuseMessages(matches, ordered(condition))
}

// LoseMessages loses each message whose id matches, of those that a topic or queue accepts
// from now on, until [Server.ClearFaults]. The sender gets its acknowledgement, duplicates
// of the message are dropped, and no receiver ever gets it. Different goroutines call
// matches, but never concurrently.
func (s *Server) LoseMessages(entity string, matches func(messageID string) bool) error {
	return s.lose(entity, func(l *broker.Losses) { l.Lost = matches })
}

// ExpireMessages expires each message whose id matches, of those that a topic or queue
// accepts from now on, at the moment of its acceptance, until [Server.ClearFaults]. No
// receiver gets it. It is dead-lettered if the entity dead-letters expired messages.
// Different goroutines call matches, but never concurrently.
func (s *Server) ExpireMessages(entity string, matches func(messageID string) bool) error {
	return s.lose(entity, func(l *broker.Losses) { l.Expired = matches })
}

func (s *Server) lose(entity string, change func(l *broker.Losses)) error {
	d := s.namespace.Destination(entity)
	if d == nil {
		return fmt.Errorf("%w: %q", ErrNotFound, entity)
	}

	d.Lose(change)

	return nil
}

// RefuseLinks refuses new links and management requests for d, with an error condition such
// as "amqp:not-found". Together with [Server.DetachLinks], it imitates a namespace during a
// failover.
func (s *Server) RefuseLinks(d time.Duration, condition string) {
	s.front.Faults.RefuseLinks(d, ordered(condition))
}

// LoseSessionLock ends the lock of a session as if it had expired now. Delivered messages
// count as delivered and become available again. The link is detached with
// com.microsoft:session-lock-lost. A queue is named like "events/Subscriptions/projector".
func (s *Server) LoseSessionLock(queue, session string) error {
	q, err := s.queue(queue)
	if err != nil {
		return err
	}

	if !q.LoseSession(session) {
		return fmt.Errorf("lose lock of session %q of %q: %w", session, queue, ErrNotLocked)
	}

	return nil
}

// DropConnections breaks the connections that which selects (nil: all) without a closing
// frame, like a broken network, and returns their number.
func (s *Server) DropConnections(which func(Connection) bool) int {
	if which == nil {
		which = func(Connection) bool { return true }
	}

	return s.front.Drop(which)
}

// DetachLinks detaches all links to an entity (a topic, a queue or a
// subscription) with an error condition such as "amqp:link:detach-forced".
// Sessions are released. The path of a management node, such as
// "events/Subscriptions/projector/$management", detaches only the links that send requests
// to it. The links on which it replies stay, as after the idle timeout of the service.
func (s *Server) DetachLinks(entity, condition string) error {
	reason := ordered(condition)

	if strings.HasSuffix(entity, managementSuffix) {
		s.front.DetachSenders(entity, reason)

		return nil
	}

	q, err := s.queue(entity)
	if d := s.namespace.Destination(entity); d == nil && err != nil {
		return err
	}

	s.front.DetachSenders(entity, reason)

	if q != nil {
		q.Detach(reason)
	}

	return nil
}

// ClearFaults ends latency, throttling, all refusals and losses of messages.
func (s *Server) ClearFaults() {
	s.front.Faults.Clear()

	for _, d := range s.namespace.Destinations() {
		d.Lose(func(l *broker.Losses) { *l = broker.Losses{} })
	}
}

// managementSuffix ends the path of an entity's management node.
const managementSuffix = "/$management"

// ordered returns the error of an injected fault.
func ordered(condition string) *wire.Error {
	return wire.Errorf(wire.Symbol(condition), "Ordered by a test.")
}

func (s *Server) queue(path string) (*broker.Queue, error) {
	q, err := s.namespace.Queue(strings.Trim(path, "/"))
	if err != nil || q == nil {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, path)
	}

	return q, nil
}
