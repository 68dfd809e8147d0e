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

// SetLatency adds latency to all frames on their way to the server and on
// their way to the client. It holds for open connections too; what is under
// way keeps its order.
func (s *Server) SetLatency(toServer, toClient time.Duration) {
	s.front.Faults.SetLatency(toServer, toClient)
}

// Throttle answers sends, management requests and accepts with
// com.microsoft:server-busy (error code 50009) for a while from now.
func (s *Server) Throttle(d time.Duration) { s.front.Faults.Throttle(d) }

// LimitCredits throttles as the Standard tier does: every second grants so
// many credits. A message sent costs 1 and 1 more for each filter that it is
// evaluated by, a message received 1, accepting a session or opening a receiver
// 1, a management request 10. What is over is answered with
// com.microsoft:server-busy; messages to be received wait for the next second.
// The tier grants 1,000. Zero lifts the limit.
func (s *Server) LimitCredits(perSecond int) { s.front.Faults.LimitCredits(perSecond) }

// RefuseSends refuses the next n sends (a batch is one) to a topic or queue,
// or with "" to any, with an error condition such as "amqp:internal-error".
func (s *Server) RefuseSends(entity string, n int, condition string) {
	if n > 0 {
		s.front.Faults.RefuseSends(entity, n, ordered(condition))
	}
}

// RefuseMessages refuses each send (a batch is one) with a message whose id matches,
// until [Server.ClearFaults], with an error condition such as "amqp:not-allowed".
// matches is called by many goroutines, one at a time.
func (s *Server) RefuseMessages(matches func(messageID string) bool, condition string) {
	s.front.Faults.RefuseMessages(matches, ordered(condition))
}

// LoseMessages loses each message that a topic or queue accepts from now on and whose
// id matches, until [Server.ClearFaults]: the sender gets its acknowledgement,
// duplicates of the message are dropped, and no receiver ever gets it. matches is
// called by many goroutines, one at a time.
func (s *Server) LoseMessages(entity string, matches func(messageID string) bool) error {
	return s.lose(entity, func(l *broker.Losses) { l.Lost = matches })
}

// ExpireMessages ends the time to live of each message that a topic or queue accepts
// from now on and whose id matches, at the moment of its acceptance, until
// [Server.ClearFaults]. No receiver gets it; it is dead-lettered where expired messages
// are. matches is called by many goroutines, one at a time.
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

// RefuseLinks refuses new links and management requests for a while, with an error
// condition such as "amqp:not-found". With [Server.DetachLinks] it is what a namespace
// answers during a failover.
func (s *Server) RefuseLinks(d time.Duration, condition string) {
	s.front.Faults.RefuseLinks(d, ordered(condition))
}

// LoseSessionLock ends the lock of a session as if it had expired now: what
// was delivered counts as delivered and is available again, and the link is
// detached with com.microsoft:session-lock-lost. The queue is one such as
// "events/Subscriptions/projector".
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

// DropConnections ends the connections that which selects (nil: all) without
// a word, as a broken network does, and returns how many.
func (s *Server) DropConnections(which func(Connection) bool) int {
	if which == nil {
		which = func(Connection) bool { return true }
	}

	return s.front.Drop(which)
}

// DetachLinks detaches all links to an entity (a topic, a queue or a
// subscription) with an error condition such as "amqp:link:detach-forced".
// Sessions are released.
func (s *Server) DetachLinks(entity, condition string) error {
	reason := ordered(condition)

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

// ClearFaults ends latency, throttling, refusals of any kind and losses of messages.
func (s *Server) ClearFaults() {
	s.front.Faults.Clear()

	for _, d := range s.namespace.Destinations() {
		d.Lose(func(l *broker.Losses) { *l = broker.Losses{} })
	}
}

// ordered returns the error for a fault that a test ordered.
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
