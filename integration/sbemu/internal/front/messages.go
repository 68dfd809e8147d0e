package front

import (
	"math"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

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

	// The JavaScript SDK names no link when it settles a deferred message, only the
	// session.
	if id, given := req.textField("session-id"); given && req.text(associatedLink) == "" {
		r = c.holder(m.queue, id)
	}

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

	r := m.receiver(c, req)

	// A detached link has lost its session and must not see other sessions.
	if r == nil && m.queue.RequiresSession() && req.text(associatedLink) != "" {
		return failure(broker.SessionLockLost())
	}

	return messages(m.queue.Peek(r, from, int(count)))
}

// messages returns the response with messages, or status 204 if there are none.
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

func (m *management) schedule(c *conn, req *request) response {
	entries, valid := req.field("messages").([]any)
	if !valid || len(entries) == 0 || len(entries) > broker.MaxBatchMessages {
		return badRequest("messages")
	}

	cfg := m.destination.Config()
	size := uint64(0)
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
			return failure(refusedMessage(err))
		}

		if size += uint64(len(encoded)); uint64(len(encoded)) > cfg.MaxMessageSize || len(entries) > 1 && size > max(cfg.MaxMessageSize, cfg.MaxBatchSize) {
			return failure(wire.Errorf(broker.CondMessageSize, "The messages of %d bytes exceed the limit of the entity.", size))
		}
	}

	if err := c.srv.Faults.refuseSend(m.destination.Path(), msgs); err != nil {
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
