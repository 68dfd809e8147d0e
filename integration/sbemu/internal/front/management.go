package front

import (
	"math"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// management is the management node of an entity: of what can be sent to, of
// what can be received from, or of a queue, which is both.
type management struct {
	entity      string
	destination *broker.Destination // nil: cannot be sent to
	queue       *broker.Queue       // nil: cannot be received from
}

// managementNode returns the management node at an address.
func (c *conn) managementNode(address, entity string) (*management, *wire.Error) {
	if err := c.authorize(address, access.All); err != nil {
		return nil, err
	}

	ns := c.srv.opts.Namespace
	m := &management{entity: entity, destination: ns.Destination(entity)}
	m.queue, _ = ns.Queue(entity)

	if m.destination == nil && m.queue == nil {
		return nil, errNotFound(entity)
	}

	return m, nil
}

// operation is an operation of a management node.
type operation struct {
	rights  access.Rights
	onQueue bool // of what is received from, otherwise of what is sent to
	run     func(m *management, c *conn, req *request) response
}

var operations = map[string]operation{
	"com.microsoft:renew-session-lock":         {access.Listen, true, ofSession(renewSession)},
	"com.microsoft:get-session-state":          {access.Listen, true, ofSession(sessionState)},
	"com.microsoft:set-session-state":          {access.Listen, true, ofSession(setSessionState)},
	"com.microsoft:renew-lock":                 {access.Listen, true, (*management).renewLocks},
	"com.microsoft:update-disposition":         {access.Listen, true, (*management).settle},
	"com.microsoft:receive-by-sequence-number": {access.Listen, true, (*management).receiveDeferred},
	"com.microsoft:peek-message":               {access.Listen, true, (*management).peek},
	"com.microsoft:get-message-sessions":       {access.Listen, true, (*management).sessions},
	"com.microsoft:schedule-message":           {access.Send, false, (*management).schedule},
	"com.microsoft:cancel-scheduled-message":   {access.Send, false, (*management).cancel},
}

// request handles a request to the node.
func (m *management) request(c *conn, req *request) {
	c.respond(req, m.answer(c, req))
}

func (m *management) answer(c *conn, req *request) response {
	name := req.text("operation")

	op, known := operations[name]
	if !known || op.onQueue && m.queue == nil || !op.onQueue && m.destination == nil {
		return response{code: 400, description: "The operation '" + name + "' is not supported by '" + m.entity + "'."}
	}

	if err := c.authorize(m.entity+managementSuffix, op.rights); err != nil {
		return failure(err)
	}

	if err := c.srv.Faults.refuseRequest(m.entity); err != nil {
		return failure(err)
	}

	return op.run(m, c, req)
}

// receiver returns the receiver behind the link that a request is for. It
// must belong to the node's entity.
func (m *management) receiver(c *conn, req *request) *broker.Receiver {
	l := c.link(req.text("associated-link-name"))
	if l == nil || l.receiver == nil || l.receiver.Queue() != m.queue {
		return nil
	}

	return l.receiver
}

func badRequest(what string) response {
	return response{code: 400, description: "The request lacks a valid '" + what + "'.", condition: broker.CondArgument}
}

// ofSession makes an operation of one on the session that a request names, and
// that its link must hold.
func ofSession(run func(r *broker.Receiver, id string, req *request) response) func(*management, *conn, *request) response {
	return func(m *management, c *conn, req *request) response {
		id, valid := req.textField("session-id")
		if !valid {
			return badRequest("session-id")
		}

		r := m.receiver(c, req)
		if r == nil {
			return failure(wire.Errorf(broker.CondSessionLockLost,
				"The session lock has expired on the MessageSession. Accept a new MessageSession."))
		}

		return run(r, id, req)
	}
}

func renewSession(r *broker.Receiver, id string, _ *request) response {
	until, err := r.RenewSession(id)
	if err != nil {
		return failure(err)
	}

	return ok(wire.AppendMap(nil, wire.Map{{Key: "expiration", Value: timestamp(until)}}))
}

func sessionState(r *broker.Receiver, id string, _ *request) response {
	state, err := r.SessionState(id)
	if err != nil {
		return failure(err)
	}

	var value any
	if state != nil {
		value = state
	}

	return ok(wire.AppendMap(nil, wire.Map{{Key: "session-state", Value: value}}))
}

func setSessionState(r *broker.Receiver, id string, req *request) response {
	var state []byte

	switch v := req.field("session-state").(type) {
	case nil:
	case []byte:
		if len(v) > 0 { // an empty state is none, as SDKs send it to clear it
			state = v
		}
	default:
		return badRequest("session-state")
	}

	if err := r.SetSessionState(id, state); err != nil {
		return failure(err)
	}

	return ok(nil)
}

func (m *management) renewLocks(_ *conn, req *request) response {
	tokens, valid := wire.UUIDs(req.field("lock-tokens"))
	if !valid || len(tokens) == 0 {
		return badRequest("lock-tokens")
	}

	untils, err := m.queue.RenewLocks(tokens)
	if err != nil {
		return failure(err)
	}

	stamps := make([]wire.Timestamp, len(untils))
	for i, t := range untils {
		stamps[i] = timestamp(t)
	}

	return ok(wire.AppendMap(nil, wire.Map{{Key: "expirations", Value: wire.Raw(wire.AppendTimestamps(nil, stamps))}}))
}

func (m *management) settle(c *conn, req *request) response {
	tokens, valid := wire.UUIDs(req.field("lock-tokens"))
	if !valid || len(tokens) == 0 {
		return badRequest("lock-tokens")
	}

	var o broker.Outcome

	o.Properties, _ = req.field("properties-to-modify").(wire.Map)

	switch status, _ := req.textField("disposition-status"); status {
	case "completed":
		o.Verdict = broker.Complete
	case "abandoned":
		o.Verdict = broker.Abandon
	case "defered", "deferred":
		o.Verdict = broker.Defer
	case "suspended":
		o.Verdict = broker.DeadLetter

		if reason, given := req.textField("deadletter-reason"); given {
			o.Properties = append(o.Properties, wire.Pair{Key: "DeadLetterReason", Value: reason})
		}

		if description, given := req.textField("deadletter-description"); given {
			o.Properties = append(o.Properties, wire.Pair{Key: "DeadLetterErrorDescription", Value: description})
		}
	default:
		return badRequest("disposition-status")
	}

	r := m.receiver(c, req)

	for _, t := range tokens {
		if err := m.queue.SettleToken(r, t, o); err != nil {
			return failure(err)
		}
	}

	return ok(nil)
}

func (m *management) receiveDeferred(c *conn, req *request) response {
	seqs, valid := wire.Longs(req.field("sequence-numbers"))
	if !valid || len(seqs) == 0 {
		return badRequest("sequence-numbers")
	}

	var mode broker.Mode

	switch n, given := req.intField("receiver-settle-mode"); {
	case given && n == wire.ReceiverFirst:
		mode = broker.ReceiveAndDelete
	case given && n == wire.ReceiverSecond:
		mode = broker.PeekLock
	default:
		return badRequest("receiver-settle-mode")
	}

	found, err := m.queue.ReceiveDeferred(m.receiver(c, req), seqs, mode)
	if err != nil {
		return failure(err)
	}

	return messages(found)
}

func (m *management) peek(c *conn, req *request) response {
	from, valid := req.intField("from-sequence-number")
	if !valid {
		return badRequest("from-sequence-number")
	}

	count, valid := req.intField("message-count")
	if !valid || count < 0 || count > math.MaxInt32 {
		return badRequest("message-count")
	}

	return messages(m.queue.Peek(m.receiver(c, req), from, int(count)))
}

// messages returns the response that holds messages, 204 without any.
func messages(found []broker.Browsed) response {
	if len(found) == 0 {
		return response{code: 204, description: "No Content"}
	}

	list := make([]any, len(found))

	for i := range found {
		entry := wire.Map{{Key: "message", Value: found[i].Message.Append(nil, &found[i].Stamp)}}

		if token := found[i].Stamp.LockToken; token != (wire.UUID{}) {
			entry = append(entry, wire.Pair{Key: "lock-token", Value: token})
		}

		list[i] = entry
	}

	return ok(wire.AppendMap(nil, wire.Map{{Key: "messages", Value: list}}))
}

// defaultListing is how a client says that it does not ask by time: year
// 10000, or the last time of .NET.
var defaultListing = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (m *management) sessions(_ *conn, req *request) response {
	updated, valid := req.field("last-updated-time").(wire.Timestamp)
	if !valid {
		return badRequest("last-updated-time")
	}

	skip, valid := req.intField("skip")
	if !valid || skip < 0 {
		return badRequest("skip")
	}

	top, valid := req.intField("top")
	if !valid || top < 0 {
		return badRequest("top")
	}

	var after time.Time
	if t := time.UnixMilli(int64(updated)); t.Before(defaultListing) {
		after = t
	}

	ids := m.queue.Sessions(after, int(min(skip, math.MaxInt32)), int(min(top, math.MaxInt32)))
	if len(ids) == 0 {
		return response{code: 204, description: "No Content"}
	}

	return ok(wire.AppendMap(nil, wire.Map{
		{Key: "skip", Value: int32(int(skip) + len(ids))},
		{Key: "sessions-ids", Value: wire.Raw(wire.AppendStrings(nil, ids))},
	}))
}

func (m *management) schedule(c *conn, req *request) response {
	entries, valid := req.field("messages").([]any)
	if !valid || len(entries) == 0 {
		return badRequest("messages")
	}

	msgs := make([]*message.Message, len(entries))

	for i, e := range entries {
		entry, _ := e.(wire.Map)
		value, _ := entry.Get("message")

		encoded, isBinary := value.([]byte)
		if !isBinary {
			return badRequest("messages")
		}

		var err error
		if msgs[i], err = message.Parse(encoded, newMessageID); err != nil {
			return failure(wire.Errorf(broker.CondDecodeError, "%s", err))
		}
	}

	if err := c.srv.Faults.refuseSend(m.destination.Path(), len(msgs), m.destination.Filters()); err != nil {
		return failure(err)
	}

	seqs, err := m.destination.Schedule(msgs)
	if err != nil {
		return failure(err)
	}

	return ok(wire.AppendMap(nil, wire.Map{{Key: "sequence-numbers", Value: wire.Raw(wire.AppendLongs(nil, seqs))}}))
}

func (m *management) cancel(_ *conn, req *request) response {
	seqs, valid := wire.Longs(req.field("sequence-numbers"))
	if !valid || len(seqs) == 0 {
		return badRequest("sequence-numbers")
	}

	if err := m.destination.Cancel(seqs); err != nil {
		return failure(err)
	}

	return ok(nil)
}

func timestamp(t time.Time) wire.Timestamp { return wire.Timestamp(t.UnixMilli()) }
