package front

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

const (
	// sessionWindow is the number of transfers that the client can send on a session
	// without a new grant. The server renews the window when half of it is used.
	sessionWindow = 5000

	// handleMax is the highest handle of a session's links.
	handleMax = 255
)

// session is an AMQP session: a channel of a connection. It is unrelated to message
// sessions.
type session struct {
	conn    *conn
	channel uint16

	// Used only by the goroutine that handles frames.
	links map[uint32]link

	// Guarded by the connection's lock.
	nextIn       uint32 // next transfer id of the client
	windowUsed   uint32 // transfers since the window was granted
	nextOut      uint32 // next transfer id of the server
	nextDelivery uint32
	peerWindow   uint32 // transfers that the client accepts
	unsettled    map[uint32]delivery
	ended        bool
}

// delivery is a message that the client has received and not settled.
type delivery struct {
	link  *outgoing
	item  *broker.Item // nil: a reply
	token wire.UUID
}

// link handles the frames that arrive on a link of a session.
type link interface {
	// flow handles a flow frame of the link.
	flow(p *wire.Flow)

	// transfer handles a transfer; an error ends the connection.
	transfer(p *wire.Transfer) error

	// detached handles the client's detach, or the end of session or
	// connection.
	detached()

	// answerDetach reports whether a detach of the client must be answered. It must,
	// unless it is itself an answer.
	answerDetach() bool
}

func newSession(c *conn, channel uint16, p *wire.Begin) *session {
	return &session{
		conn:       c,
		channel:    channel,
		links:      make(map[uint32]link),
		nextIn:     p.NextOutgoingID,
		peerWindow: p.IncomingWindow,
		unsettled:  make(map[uint32]delivery),
	}
}

// handle handles a frame of the session.
func (s *session) handle(p wire.Performative) error {
	switch p := p.(type) {
	case *wire.Attach:
		return s.attach(p)
	case *wire.Flow:
		s.flow(p)
	case *wire.Transfer:
		return s.transfer(p)
	case *wire.Disposition:
		s.disposition(p)
	case *wire.Detach:
		s.detach(p)
	case *wire.End:
		s.end()
	default:
		return wire.Errorf(broker.CondNotAllowed, "unexpected performative %T", p)
	}

	return nil
}

// flow handles a flow frame: the session's windows, then the link's credit.
func (s *session) flow(p *wire.Flow) {
	c := s.conn

	c.mu.Lock()

	next := uint32(0)
	if p.HasNextIncomingID {
		next = p.NextIncomingID
	}

	s.peerWindow = next + p.IncomingWindow - s.nextOut
	if int32(s.peerWindow) < 0 { // less than the transfers in flight
		s.peerWindow = 0
	}

	var waiting []*outgoing
	if s.peerWindow > 0 {
		waiting = c.unblock()
	}

	c.mu.Unlock()

	for _, l := range waiting {
		l.resume()
	}

	if p.HasHandle {
		if l := s.links[p.Handle]; l != nil {
			l.flow(p)
		}

		return
	}

	if p.Echo {
		s.sendFlow(&wire.Flow{})
	}
}

// sendFlow sends a flow frame with the session's windows filled in.
func (s *session) sendFlow(p *wire.Flow) {
	c := s.conn

	c.mu.Lock()
	s.appendFlow(p)
	c.mu.Unlock()
	c.signal()
}

// appendFlow is sendFlow for a caller that holds the connection's lock.
func (s *session) appendFlow(p *wire.Flow) {
	p.NextIncomingID, p.HasNextIncomingID = s.nextIn, true
	p.IncomingWindow = sessionWindow
	p.NextOutgoingID = s.nextOut
	p.OutgoingWindow = sessionWindow
	s.windowUsed = 0
	s.conn.append(s.channel, p)
}

func (s *session) transfer(p *wire.Transfer) error {
	l := s.links[p.Handle]
	if l == nil {
		return wire.Errorf(broker.CondUnattachedHandle, "no link with handle %d", p.Handle)
	}

	c := s.conn

	c.mu.Lock()
	s.nextIn++
	s.windowUsed++
	grant := s.windowUsed >= sessionWindow/2
	c.mu.Unlock()

	if err := l.transfer(p); err != nil {
		return err
	}

	if grant {
		s.sendFlow(&wire.Flow{})
	}

	return nil
}

// detach handles the client's detach.
func (s *session) detach(p *wire.Detach) {
	l := s.links[p.Handle]
	if l == nil {
		return
	}

	delete(s.links, p.Handle)
	s.conn.linked(-1)

	answer := l.answerDetach()
	l.detached()

	if answer {
		s.conn.send(s.channel, &wire.Detach{Handle: p.Handle, Closed: true})
	}
}

// end handles the client's end.
func (s *session) end() {
	delete(s.conn.sessions, s.channel)
	s.release()
	s.conn.send(s.channel, &wire.End{})
}

// release ends all links of the session without sending frames for them.
func (s *session) release() {
	c := s.conn

	c.mu.Lock()
	s.ended = true
	c.mu.Unlock()

	for _, l := range s.links {
		l.detached()
		c.linked(-1)
	}

	clear(s.links)

	c.mu.Lock()

	if c.settled.session == s {
		c.flushSettled()
	}

	c.mu.Unlock()
}

// disposition handles the client's settlements.
func (s *session) disposition(p *wire.Disposition) {
	if p.Role != wire.RoleReceiver || p.State.Code == wire.CodeReceived || p.State.Code == 0 && !p.Settled {
		return
	}

	if p.First == p.Last {
		s.settle(p, p.First)

		return
	}

	// A range may name more deliveries than exist. The existing deliveries bound the
	// work.
	c := s.conn
	c.mu.Lock()

	var ids []uint32

	if span := p.Last - p.First; int64(span) <= 2*int64(len(s.unsettled)) {
		for i := range span + 1 {
			if _, ok := s.unsettled[p.First+i]; ok {
				ids = append(ids, p.First+i)
			}
		}
	} else {
		for id := range s.unsettled {
			if id-p.First <= span {
				ids = append(ids, id)
			}
		}
	}

	c.mu.Unlock()

	for _, id := range ids {
		s.settle(p, id)
	}
}

// settle settles one delivery and answers, if the client waits for an answer.
func (s *session) settle(p *wire.Disposition, id uint32) {
	c := s.conn

	c.mu.Lock()
	d, ok := s.unsettled[id]
	delete(s.unsettled, id)

	if ok {
		d.link.usedAt = time.Now()
	}

	c.mu.Unlock()

	if !ok {
		return
	}

	state := p.State

	if d.item != nil {
		if err := d.link.settle(d, p.State); err != nil {
			state = wire.Rejected(err)
		} else if state.Code == wire.CodeRejected {
			state = wire.Rejected(nil) // the service answers without an error
		}
	}

	if p.Settled {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if d.link.gone { // the lock is lost: the detach has reported it
		return
	}

	if state.Code == wire.CodeAccepted {
		c.accepted(s, wire.RoleSender, id, id)

		return
	}

	c.flushSettled()
	c.append(s.channel, &wire.Disposition{Role: wire.RoleSender, First: id, Last: id, Settled: true, State: state})
	c.signal()
}
