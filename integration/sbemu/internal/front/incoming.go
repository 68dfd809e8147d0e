package front

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

const (
	// linkCredit is the number of messages that a client can send without a new grant.
	// The server renews the credit when half of it is used.
	linkCredit = 1000

	// maxRequestSize is the largest request to a management node, in bytes.
	maxRequestSize = 16 << 20
)

// incoming is a link on which the client sends messages to a topic or queue, or requests
// to a node. Except for detach, only the goroutine that handles frames uses it.
type incoming struct {
	session *session
	handle  uint32
	maxSize uint64

	destination *broker.Destination         // or
	request     func(c *conn, req *request) // handles requests to a node
	node        string                      // the node's address, in lower case

	used          uint32 // credit since the last grant
	deliveryCount uint32
	gone          atomic.Bool // detached by the server
	usedAt        time.Time   // guarded by the connection's lock

	// State of a message whose frames are arriving.
	partial bool
	payload []byte
	head    wire.Transfer
}

// path returns the path of the entity or of the management node.
func (l *incoming) path() string {
	if l.destination != nil {
		return l.destination.Path()
	}

	return l.node
}

// grant grants the client credit to send.
func (l *incoming) grant() {
	l.used = 0
	l.session.sendFlow(&wire.Flow{
		Handle:           l.handle,
		HasHandle:        true,
		DeliveryCount:    l.deliveryCount,
		HasDeliveryCount: true,
		LinkCredit:       linkCredit,
		HasLinkCredit:    true,
	})
}

func (l *incoming) flow(p *wire.Flow) {
	if p.HasDeliveryCount {
		l.deliveryCount = p.DeliveryCount
	}

	if p.Echo {
		l.grant()
	}
}

func (l *incoming) detached() {
	c := l.session.conn
	c.leaveCBS(l)

	c.mu.Lock()
	delete(c.senders, l)
	c.mu.Unlock()
}

func (l *incoming) answerDetach() bool { return !l.gone.Load() }

// detach ends the link with a reason.
func (l *incoming) detach(reason *wire.Error) {
	if l.gone.Swap(true) {
		return
	}

	l.session.conn.send(l.session.channel, &wire.Detach{Handle: l.handle, Closed: true, Error: reason})
}

// transfer collects the frames of a message and delivers the complete message.
func (l *incoming) transfer(p *wire.Transfer) error {
	if l.gone.Load() {
		return nil
	}

	if !l.partial {
		if !p.HasDeliveryID {
			return wire.Errorf(broker.CondNotAllowed, "first transfer of a delivery without a delivery-id")
		}

		l.head = *p
		l.payload = nil
	}

	l.head.Settled = l.head.Settled || p.Settled
	l.partial = p.More && !p.Aborted

	if p.Aborted {
		l.payload = nil
		l.credited()

		return nil
	}

	if size := uint64(len(l.payload) + len(p.Payload)); size > l.maxSize {
		reason := wire.Errorf(broker.CondMessageSize, "The received message (delivery-id:%d, size:%d bytes) "+
			"exceeds the limit (%d bytes) currently allowed on the link.", l.head.DeliveryID, size, l.maxSize)
		l.payload = nil
		// A client that does not check the size itself learns the outcome only from the
		// disposition. The JavaScript SDK waits for its timeout if only the link ends.
		l.answer(wire.Rejected(reason))
		l.detach(reason)

		return nil
	}

	// The payload is in the connection's read buffer, so it must be copied.
	l.payload = append(l.payload, p.Payload...)

	if l.partial {
		return nil
	}

	payload := l.payload
	l.payload = nil
	l.credited()

	return l.deliver(payload)
}

// credited counts a delivery, and grants new credit when half is used.
func (l *incoming) credited() {
	l.deliveryCount++
	l.used++

	if l.used >= linkCredit/2 {
		l.grant()
	}
}

// deliver accepts or refuses a complete message and answers the client.
func (l *incoming) deliver(payload []byte) error {
	if l.request != nil {
		req, err := parseRequest(payload)
		if err != nil {
			l.answer(wire.Rejected(wire.Errorf(broker.CondDecodeError, "%s", err)))

			return nil
		}

		req.node = replyNode{session: l.session, address: l.node}

		l.answer(wire.Accepted)
		l.request(l.session.conn, req)

		return nil
	}

	if err := l.send(payload); err != nil {
		l.answer(wire.Rejected(err))
	} else {
		l.answer(wire.Accepted)
	}

	return nil
}

// send parses the received messages and sends them to the topic or queue.
func (l *incoming) send(payload []byte) *wire.Error {
	var (
		msgs  []*message.Message
		err   error
		batch = l.head.MessageFormat == message.BatchFormat
		one   [1]*message.Message
	)

	if batch {
		msgs, err = message.Batch(payload, broker.MaxBatchMessages, newMessageID)
	} else {
		one[0], err = message.Parse(payload, newMessageID)
		msgs = one[:]
	}

	switch {
	case errors.Is(err, message.ErrBatchCount):
		return wire.Errorf(broker.CondInternalError, "The service was unable to process the request; please retry the operation. "+
			"For more information on exception types and proper exception handling, please refer to http://go.microsoft.com/fwlink/?LinkId=761101")
	case err != nil:
		return refusedMessage(err)
	}

	if cfg := l.destination.Config(); !batch && uint64(len(payload)) > cfg.MaxMessageSize ||
		batch && cfg.MaxBatchSize > 0 && uint64(len(payload)) > cfg.MaxBatchSize {
		return wire.Errorf(broker.CondMessageSize, "The message of %d bytes exceeds the limit of the entity.", len(payload))
	}

	if refusal := l.session.conn.srv.Faults.refuseSend(l.destination.Path(), msgs); refusal != nil {
		return refusal
	}

	return l.destination.Send(msgs)
}

// refusedMessage returns the service's error for a message that cannot be read.
func refusedMessage(err error) *wire.Error {
	if errors.Is(err, message.ErrProperties) {
		return wire.Errorf(broker.CondMessageSize, "%s", err)
	}

	return wire.Errorf(broker.CondDecodeError, "%s", err)
}

// answer reports the outcome of the message to the client.
func (l *incoming) answer(state wire.State) {
	if l.head.Settled {
		return
	}

	s, c, id := l.session, l.session.conn, l.head.DeliveryID

	c.mu.Lock()
	defer c.mu.Unlock()

	l.usedAt = time.Now()

	if state.Code == wire.CodeAccepted {
		c.accepted(s, wire.RoleReceiver, id, id)

		return
	}

	c.flushSettled()
	c.append(s.channel, &wire.Disposition{Role: wire.RoleReceiver, First: id, Last: id, Settled: true, State: state})
	c.signal()
}
