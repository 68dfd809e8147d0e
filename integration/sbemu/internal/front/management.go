package front

import (
	"math"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// management is the management node of an entity: of a destination, of a queue, or of
// both.
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
	onQueue bool // it needs a queue, otherwise a destination
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

// closed returns why the node's entity was closed, or nil.
func (m *management) closed() *wire.Error {
	if m.queue != nil {
		return m.queue.Closed()
	}

	return m.destination.Closed()
}

func (m *management) answer(c *conn, req *request) response {
	if err := m.closed(); err != nil {
		return failure(err)
	}

	name := req.text("operation")

	op, known := operations[name]
	if !known || op.onQueue && m.queue == nil || !op.onQueue && m.destination == nil {
		return response{code: 400, description: "The operation '" + name + "' is not supported by '" + m.entity + "'."}
	}

	if err := c.authorize(m.entity+managementSuffix, op.rights); err != nil {
		return failure(err)
	}

	if err := c.srv.Faults.refuseRequest(); err != nil {
		return failure(err)
	}

	return op.run(m, c, req)
}

// associatedLink is the application property that names a request's link.
const associatedLink = "associated-link-name"

// receiver returns the receiver of the link that a request names. The link must belong to
// the node's entity.
func (m *management) receiver(c *conn, req *request) *broker.Receiver {
	l := c.link(req.text(associatedLink))
	if l == nil || l.receiver == nil || l.receiver.Queue() != m.queue {
		return nil
	}

	return l.receiver
}

func badRequest(what string) response {
	return response{code: 400, description: "The request lacks a valid '" + what + "'.", condition: broker.CondArgument}
}

// ofSession returns an operation that calls run with the session that a request names.
// The request's link must hold that session.
func ofSession(run func(r *broker.Receiver, id string, req *request) response) func(*management, *conn, *request) response {
	return func(m *management, c *conn, req *request) response {
		id, valid := req.textField("session-id")
		if !valid {
			return badRequest("session-id")
		}

		r := m.receiver(c, req)
		if r == nil {
			return failure(broker.SessionLockLost())
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
		if len(v) > 0 { // SDKs send an empty state to clear it
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

// defaultListing is the start of the times by which a client requests a listing not
// limited by time. Clients send year 10000, or the last time of .NET.
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

func timestamp(t time.Time) wire.Timestamp { return wire.Timestamp(t.UnixMilli()) }
