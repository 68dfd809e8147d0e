package front

import (
	"fmt"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// request is a request to $cbs or to a management node.
type request struct {
	id          any       // message-id
	replyTo     string    // "": none
	node        replyNode // the node that the request was sent to
	application wire.Map
	body        any // the amqp-value section
}

// parseRequest decodes a request.
func parseRequest(payload []byte) (*request, error) {
	d := wire.NewDecoder(payload)
	r := &request{}

	for d.Len() > 0 {
		switch code := d.Descriptor(); code {
		case wire.CodeProperties:
			f := d.List()
			r.id = f.Next().Value()
			f.Next().Skip() // user-id
			f.Next().Skip() // to
			f.Next().Skip() // subject
			r.replyTo = f.Next().Text()

			if f.Err() != nil {
				d.Fail(f.Err())
			}
		case wire.CodeApplicationProperties:
			r.application = d.Map()
		case wire.CodeValue:
			r.body = d.Value()
		default:
			d.Skip()
		}
	}

	if d.Err() != nil {
		return nil, fmt.Errorf("decode request: %w", d.Err())
	}

	return r, nil
}

// text returns an application property that is text.
func (r *request) text(name string) string {
	v, _ := r.application.Get(name)
	s, _ := wire.Text(v)

	return s
}

// field returns a field of the body, which is a map.
func (r *request) field(name string) any {
	m, _ := r.body.(wire.Map)
	v, _ := m.Get(name)

	return v
}

func (r *request) textField(name string) (string, bool) { return wire.Text(r.field(name)) }

func (r *request) intField(name string) (int64, bool) { return wire.Integer(r.field(name)) }

// response is the answer to a request.
type response struct {
	code        int32
	description string
	condition   wire.Symbol
	body        []byte // an encoded value, nil: none
}

// status returns the application properties that carry the outcome. $cbs and
// management nodes use different names for them. Python's uamqp reads only
// status-code from $cbs, and it fails if a management node's reply has both names.
func (r response) status(node string) wire.Map {
	if node == cbsAddress {
		return wire.Map{
			{Key: "status-code", Value: r.code},
			{Key: "status-description", Value: r.description},
		}
	}

	status := wire.Map{
		{Key: "statusCode", Value: r.code},
		{Key: "statusDescription", Value: r.description},
	}

	if r.condition != "" {
		status = append(status, wire.Pair{Key: "errorCondition", Value: r.condition})
	}

	return status
}

func ok(body []byte) response { return response{code: 200, description: "OK", body: body} }

// failure returns the response for an error.
func failure(err *wire.Error) response {
	return response{code: statusCode(err.Condition), description: err.Description, condition: err.Condition}
}

// statusCode returns the status of an error. The SDK treats unknown codes as a broken
// connection (azservicebus, internal/errors.go).
func statusCode(condition wire.Symbol) int32 {
	switch condition {
	case broker.CondMessageLockLost, broker.CondSessionLockLost:
		return 410
	case broker.CondNotFound, broker.CondMessageNotFound:
		return 404
	case broker.CondUnauthorized:
		return 401
	case broker.CondTimeout:
		return 408
	case broker.CondServerBusy:
		return 503
	case broker.CondInternalError, broker.CondOperationCancelled:
		return 500
	case broker.CondSessionUnavailable:
		return 409
	default:
		return 400
	}
}

// respond sends the response on the link that the request names. Without such a link it
// sends no response, like the service.
func (c *conn) respond(req *request, res response) {
	link := c.replies.find(req)
	if link == nil {
		return
	}

	b := wire.AppendDescriptor(nil, wire.CodeProperties)
	b, at := wire.BeginList(b)

	for range 5 {
		b = wire.AppendNull(b)
	}

	b = wire.AppendValue(b, req.id) // correlation-id
	b = wire.EndCompound(b, at, 6)

	b = wire.AppendMap(wire.AppendDescriptor(b, wire.CodeApplicationProperties), res.status(req.node.address))

	if res.body != nil {
		b = append(wire.AppendDescriptor(b, wire.CodeValue), res.body...)
	}

	link.reply(b)
}
