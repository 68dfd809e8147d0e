package front

import (
	"math"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// frameOverhead is an upper bound for the bytes of a transfer frame without its payload.
const frameOverhead = 64

// outgoing is a link on which the client receives: messages of a queue, or
// the replies of a node. It is the consumer of a broker's receiver.
type outgoing struct {
	session *session
	attach  *wire.Attach
	settled bool // deliveries are sent settled

	// Set for a link for replies.
	repliesOnly bool
	replyTo     string // the name that requests use for it
	node        replyNode

	// Guarded by the connection's lock.
	receiver      *broker.Receiver
	waiter        *broker.Waiter
	attached      bool // the client has been sent the attach
	gone          bool // detached by either side
	detachSent    bool
	blocked       bool // on the connection's list
	usedAt        time.Time
	drain         bool
	credit        uint32
	deliveryCount uint32
	queue         [][]byte // replies that wait for credit
}

var _ broker.Consumer = (*outgoing)(nil)

// accept answers the attach with the broker's grant. The queue's lock may be held.
func (l *outgoing) accept(g broker.Grant, session bool) {
	s, c := l.session, l.session.conn

	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()

	l.receiver = g.Receiver // set even if the link is gone: detached closes it

	if l.gone {
		return
	}

	reply := attachReply(l.attach)

	if g.Err != nil {
		l.gone, l.detachSent = true, true
		reply.Source = nil
		c.append(s.channel, reply)
		c.append(s.channel, &wire.Detach{Handle: l.attach.Handle, Closed: true, Error: g.Err})

		return
	}

	l.attached = true
	l.usedAt = time.Now()
	c.names[l.attach.Name] = l

	if l.credit > 0 { // credit was granted before the session: feed without the lock
		c.block(l)
	}

	if session {
		source := *l.attach.Source
		source.Filter = grantedFilter(source.Filter, g.SessionID)
		reply.Source = &source
		reply.Properties = wire.Map{{Key: wire.Symbol(propLocked), Value: ticks(g.LockedUntil)}}
	}

	c.append(s.channel, reply)
}

// ticks returns a time in .NET ticks: units of 100 ns since year 1.
func ticks(t time.Time) int64 {
	return t.UnixNano()/100 + 621355968000000000
}

// Deliver implements [broker.Consumer].
func (l *outgoing) Deliver(d *broker.Delivery) bool {
	s, c := l.session, l.session.conn

	c.mu.Lock()

	size := d.Message.Size + message.StampSize
	if !l.room(size) {
		c.mu.Unlock()

		return false
	}

	id := l.take()

	if !d.Settled {
		s.unsettled[id] = delivery{link: l, item: d.Item, token: d.Stamp.LockToken}
	}

	head := wire.Transfer{
		Handle:        l.attach.Handle,
		DeliveryID:    id,
		HasDeliveryID: true,
		Settled:       d.Settled,
	}

	tag := guid(d.Stamp.LockToken)
	head.DeliveryTag = tag[:]

	if size+frameOverhead <= c.peerFrame {
		var at int

		c.output, at = wire.BeginFrame(c.output, wire.FrameAMQP, s.channel)
		c.output = d.Message.Append(head.Append(c.output), &d.Stamp)
		c.output = wire.EndFrame(c.output, at)
		s.nextOut++
		s.peerWindow--
	} else {
		l.split(&head, d.Message.Append(nil, &d.Stamp))
	}

	c.mu.Unlock()
	c.signal()

	return true
}

// room reports whether a message of a size can be sent now. If the output or the session
// window has no room, the link is resumed when there is room. The caller holds the lock.
func (l *outgoing) room(size int) bool {
	if !l.attached || l.gone || l.session.ended || l.credit == 0 {
		return false
	}

	c := l.session.conn
	frames := uint32(size/(c.peerFrame-frameOverhead) + 1)

	if c.full() || l.session.peerWindow < frames {
		c.block(l)

		return false
	}

	return true
}

// take uses up one credit and returns the id of the new delivery. The caller holds the
// lock.
func (l *outgoing) take() uint32 {
	l.credit--
	l.deliveryCount++
	id := l.session.nextDelivery
	l.session.nextDelivery++

	return id
}

// split sends a message in as many frames as it needs. The caller holds the
// lock.
func (l *outgoing) split(head *wire.Transfer, payload []byte) {
	s, c := l.session, l.session.conn
	limit := c.peerFrame - frameOverhead

	for {
		part := payload[:min(limit, len(payload))]
		payload = payload[len(part):]
		head.More = len(payload) > 0
		head.Payload = part
		c.append(s.channel, head)
		s.nextOut++
		s.peerWindow--

		if !head.More {
			return
		}

		head.HasDeliveryID = false
	}
}

// guid returns a uuid in the byte order of .NET, in which delivery tags carry
// lock tokens.
func guid(u wire.UUID) wire.UUID {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]

	return u
}

// Detach implements [broker.Consumer].
func (l *outgoing) Detach(reason *wire.Error) {
	s, c := l.session, l.session.conn

	c.mu.Lock()
	defer c.mu.Unlock()

	if l.gone || s.ended {
		return
	}

	l.gone, l.detachSent = true, true
	l.forget()
	c.append(s.channel, &wire.Detach{Handle: l.attach.Handle, Closed: true, Error: reason})
	c.signal()
}

// forget removes the link from the connection's records. The caller holds the lock.
func (l *outgoing) forget() {
	c := l.session.conn

	if c.names[l.attach.Name] == l {
		delete(c.names, l.attach.Name)
	}

	for id, d := range l.session.unsettled {
		if d.link == l {
			delete(l.session.unsettled, id)
		}
	}
}

func (l *outgoing) answerDetach() bool {
	l.session.conn.mu.Lock()
	defer l.session.conn.mu.Unlock()

	return !l.detachSent
}

// detached releases the session that the link locks, or cancels its wait for one.
func (l *outgoing) detached() {
	c := l.session.conn

	c.mu.Lock()
	waiter := l.waiter
	l.gone = true
	l.forget()
	receiver := l.receiver

	for _, payload := range l.queue {
		c.held -= len(payload)
	}

	l.queue = nil
	c.mu.Unlock()

	if l.repliesOnly {
		c.replies.remove(l)
		c.leaveCBS(l)

		return
	}

	if waiter != nil {
		// A grant may be in progress. After Cancel, no grant follows.
		waiter.Cancel()

		c.mu.Lock()
		receiver = l.receiver
		c.mu.Unlock()
	}

	if receiver != nil {
		receiver.Close()
	}
}

// transfer returns an error: the client cannot send on a receiving link.
func (l *outgoing) transfer(*wire.Transfer) error {
	return wire.Errorf(broker.CondNotAllowed, "transfer on a receiving link")
}

// flow handles the client's credit.
func (l *outgoing) flow(p *wire.Flow) {
	c := l.session.conn

	if p.HasLinkCredit {
		c.mu.Lock()

		credit := p.LinkCredit
		if p.HasDeliveryCount {
			credit = p.DeliveryCount + p.LinkCredit - l.deliveryCount
		}

		if credit > math.MaxInt32 { // less than the transfers in flight
			credit = 0
		}

		l.credit = credit
		l.drain = p.Drain
		l.usedAt = time.Now()
		c.mu.Unlock()

		l.feed()
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	// A drain without credit is answered, too: go-amqp revokes credit in this way and
	// waits for the answer.
	if !l.endDrain() && (p.Echo || p.Drain && l.credit == 0) {
		l.tellFlow()
	}
}

// endDrain ends a drain when nothing waits to be sent: it uses up the remaining credit.
// It reports whether it did. The caller holds the lock.
func (l *outgoing) endDrain() bool {
	if !l.drain || l.credit == 0 || l.blocked || l.gone || !l.attached {
		return false
	}

	l.deliveryCount += l.credit
	l.credit = 0
	l.tellFlow()

	return true
}

// tellFlow sends the state of the link to the client. The caller holds the lock.
func (l *outgoing) tellFlow() {
	if l.gone || !l.attached {
		return
	}

	l.session.appendFlow(&wire.Flow{
		Handle:           l.attach.Handle,
		HasHandle:        true,
		DeliveryCount:    l.deliveryCount,
		HasDeliveryCount: true,
		LinkCredit:       l.credit,
		HasLinkCredit:    true,
		Drain:            l.drain,
	})
	l.session.conn.signal()
}

// resume sends waiting replies and messages after the link was blocked.
func (l *outgoing) resume() {
	l.feed()

	c := l.session.conn

	c.mu.Lock()
	l.endDrain()
	c.mu.Unlock()
}

// feed sends waiting replies and messages.
func (l *outgoing) feed() {
	c := l.session.conn

	if l.repliesOnly {
		c.mu.Lock()
		l.sendReplies()
		c.mu.Unlock()
		c.signal()

		return
	}

	c.mu.Lock()
	receiver := l.receiver
	ready := l.attached && !l.gone
	c.mu.Unlock()

	if ready {
		receiver.Resume()
	}
}

// settle hands the client's verdict to the broker.
func (l *outgoing) settle(d delivery, state wire.State) *wire.Error {
	return l.receiver.Settle(d.item, d.token, outcome(state))
}

// outcome converts a delivery state to the service's verdict.
func outcome(state wire.State) broker.Outcome {
	switch state.Code {
	case wire.CodeAccepted:
		return broker.Outcome{Verdict: broker.Complete}
	case wire.CodeModified:
		if state.UndeliverableHere {
			return broker.Outcome{Verdict: broker.Defer, Properties: state.Annotations}
		}

		return broker.Outcome{Verdict: broker.Abandon, Properties: state.Annotations}
	case wire.CodeRejected:
		o := broker.Outcome{Verdict: broker.DeadLetter}

		switch {
		case state.Error == nil:
		case state.Error.Condition == broker.CondDeadLetter:
			o.Properties = state.Error.Info
		default:
			o.Properties = wire.Map{
				{Key: "DeadLetterReason", Value: string(state.Error.Condition)},
				{Key: "DeadLetterErrorDescription", Value: state.Error.Description},
			}
		}

		return o
	default: // released, or settled without a state
		return broker.Outcome{Verdict: broker.Release}
	}
}

// reply sends a reply, or keeps it until there is credit. The acceptance of the request
// is sent first. If Python's uamqp gets a reply before the acceptance, it fails and then
// crashes (azure-uamqp-c, amqp_management.c).
func (l *outgoing) reply(payload []byte) {
	c := l.session.conn

	c.mu.Lock()
	c.flushSettled()
	l.queue = append(l.queue, payload)
	c.held += len(payload)
	l.sendReplies()
	c.limit()
	c.mu.Unlock()
	c.signal()
}

// sendReplies sends waiting replies as far as credit allows. The caller holds the lock.
func (l *outgoing) sendReplies() {
	for len(l.queue) > 0 && l.room(len(l.queue[0])) {
		payload := l.queue[0]
		l.queue = l.queue[1:]
		l.session.conn.held -= len(payload)
		id := l.take()

		if !l.settled {
			l.session.unsettled[id] = delivery{link: l}
		}

		l.split(&wire.Transfer{
			Handle:        l.attach.Handle,
			DeliveryID:    id,
			HasDeliveryID: true,
			DeliveryTag:   []byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)},
			Settled:       l.settled,
		}, payload)
	}
}
