package rawclient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// ErrUnexpected means that the server sent a different frame than expected.
var ErrUnexpected = errors.New("unexpected frame")

// Client is one connection. It is not safe for concurrent use, except that one goroutine
// may read while another writes.
type Client struct {
	Net    net.Conn
	frames *wire.FrameReader
	out    []byte
}

// Dial connects, negotiates SASL ANONYMOUS and opens an AMQP connection.
func Dial(address string) (*Client, error) {
	nc, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}

	return Open(nc)
}

// Open negotiates SASL ANONYMOUS and opens an AMQP connection on nc.
func Open(nc net.Conn) (*Client, error) {
	c := New(nc)

	if err := c.handshake(); err != nil {
		_ = nc.Close()

		return nil, err
	}

	return c, nil
}

// New returns a client on nc. It sends nothing.
func New(nc net.Conn) *Client {
	return &Client{Net: nc, frames: wire.NewFrameReader(nc, 64<<10)}
}

func (c *Client) handshake() error {
	_ = c.Net.SetDeadline(time.Now().Add(10 * time.Second))
	defer func() { _ = c.Net.SetDeadline(time.Time{}) }()

	if err := c.Protocol(wire.ProtocolSASL); err != nil {
		return err
	}

	if _, err := Expect[*wire.SASLMechanisms](c); err != nil {
		return err
	}

	c.Queue(wire.FrameSASL, 0, &wire.SASLInit{Mechanism: "ANONYMOUS", Response: []byte("anonymous")})

	if err := c.Flush(); err != nil {
		return err
	}

	outcome, err := Expect[*wire.SASLOutcome](c)
	if err != nil || outcome.Code != 0 {
		return fmt.Errorf("%w: SASL outcome %v: %w", ErrUnexpected, outcome, err)
	}

	if err := c.Protocol(wire.ProtocolAMQP); err != nil {
		return err
	}

	if err := c.Send(0, &wire.Open{ContainerID: "raw", Hostname: "localhost", MaxFrameSize: 64 << 10, ChannelMax: 1000}); err != nil {
		return err
	}

	_, err = Expect[*wire.Open](c)

	return err
}

// Protocol exchanges protocol headers.
func (c *Client) Protocol(id byte) error {
	if _, err := c.Net.Write(wire.ProtocolHeader(id)); err != nil {
		return fmt.Errorf("write protocol header: %w", err)
	}

	got, err := c.frames.Protocol()
	if err != nil {
		return fmt.Errorf("read protocol header: %w", err)
	}

	if got != id {
		return fmt.Errorf("%w: protocol %d", ErrUnexpected, got)
	}

	return nil
}

// Queue buffers a frame until Flush writes it.
func (c *Client) Queue(typ byte, channel uint16, p wire.Performative) {
	var at int

	c.out, at = wire.BeginFrame(c.out, typ, channel)
	c.out = wire.EndFrame(p.Append(c.out), at)
}

// Flush writes all queued frames.
func (c *Client) Flush() error {
	_, err := c.Net.Write(c.out)
	c.out = c.out[:0]

	if err != nil {
		return fmt.Errorf("write frames: %w", err)
	}

	return nil
}

// Send writes one frame.
func (c *Client) Send(channel uint16, p wire.Performative) error {
	c.Queue(wire.FrameAMQP, channel, p)

	return c.Flush()
}

// Receive returns the next frame, without keep-alives.
func (c *Client) Receive() (wire.Performative, error) {
	_, p, err := c.ReceiveOn()

	return p, err
}

// ReceiveOn is like Receive, and also returns the frame's channel.
func (c *Client) ReceiveOn() (uint16, wire.Performative, error) {
	for {
		f, err := c.frames.Next()
		if err != nil {
			return 0, nil, fmt.Errorf("receive: %w", err)
		}

		if len(f.Body) == 0 {
			continue
		}

		p, err := wire.Decode(f.Body)
		if err != nil {
			return 0, nil, fmt.Errorf("receive: %w", err)
		}

		return f.Channel, p, nil
	}
}

// Buffered reports whether a received frame has not been returned yet.
func (c *Client) Buffered() bool { return c.frames.Buffered() }

// Expect returns the next frame, which must be of type T. It skips flows, unless T is a
// flow.
func Expect[T wire.Performative](c *Client) (T, error) {
	for {
		p, err := c.Receive()
		if err != nil {
			var none T

			return none, err
		}

		if want, ok := p.(T); ok {
			return want, nil
		}

		if _, ok := p.(*wire.Flow); !ok {
			var none T

			return none, fmt.Errorf("%w: %T %+v instead of %T", ErrUnexpected, p, p, none)
		}
	}
}

// Begin begins a session on a channel.
func (c *Client) Begin(channel uint16) error {
	err := c.Send(channel, &wire.Begin{IncomingWindow: 1 << 20, OutgoingWindow: 1 << 20, HandleMax: 255})
	if err != nil {
		return err
	}

	_, err = Expect[*wire.Begin](c)

	return err
}

// AttachSender attaches a link that sends to an address, and returns the
// server's attach.
func (c *Client) AttachSender(channel uint16, handle uint32, address string) (*wire.Attach, error) {
	err := c.Send(channel, &wire.Attach{
		Name:          fmt.Sprintf("sender-%d-%d", channel, handle),
		Handle:        handle,
		Role:          wire.RoleSender,
		SndSettleMode: wire.SenderMixed,
		Source:        &wire.Terminus{},
		Target:        &wire.Terminus{Address: address},
	})
	if err != nil {
		return nil, err
	}

	return Expect[*wire.Attach](c)
}

// Receiver configures a receiving link.
type Receiver struct {
	Channel uint16
	Handle  uint32
	Name    string // default: from channel and handle
	Address string
	Target  string // for replies
	Filter  wire.Map
	Settled bool // mode receive-and-delete
	Timeout time.Duration
}

// AnySession is the filter that accepts the next available session.
func AnySession() wire.Map { return sessionFilter(nil) }

// NamedSession is the filter that accepts the session with an id.
func NamedSession(id string) wire.Map { return sessionFilter(id) }

func sessionFilter(value any) wire.Map {
	return wire.Map{{
		Key:   wire.Symbol("com.microsoft:session-filter"),
		Value: wire.Described{Descriptor: uint64(0x137000000C), Value: value},
	}}
}

// AttachReceiver attaches a receiving link. It does not wait for the answer.
func (c *Client) AttachReceiver(r Receiver) error {
	a := &wire.Attach{
		Name:          r.Name,
		Handle:        r.Handle,
		Role:          wire.RoleReceiver,
		RcvSettleMode: wire.ReceiverSecond,
		SndSettleMode: wire.SenderMixed,
		Source:        &wire.Terminus{Address: r.Address, Filter: r.Filter},
		Target:        &wire.Terminus{Address: r.Target},
	}

	if a.Name == "" {
		a.Name = fmt.Sprintf("receiver-%d-%d", r.Channel, r.Handle)
	}

	if r.Settled {
		a.SndSettleMode, a.RcvSettleMode = wire.SenderSettled, wire.ReceiverFirst
	}

	if r.Timeout > 0 {
		a.Properties = wire.Map{{Key: wire.Symbol("com.microsoft:timeout"), Value: uint32(r.Timeout / time.Millisecond)}}
	}

	return c.Send(r.Channel, a)
}

// Credit grants credit to a receiving link. delivered is the delivery count since the
// link's start.
func (c *Client) Credit(channel uint16, handle, delivered, credit uint32) error {
	return c.Send(channel, CreditFlow(handle, delivered, credit))
}

// CreditFlow is the frame that Credit sends.
func CreditFlow(handle, delivered, credit uint32) *wire.Flow {
	return &wire.Flow{
		HasNextIncomingID: true,
		NextIncomingID:    delivered,
		IncomingWindow:    1 << 20,
		OutgoingWindow:    1 << 20,
		Handle:            handle,
		HasHandle:         true,
		DeliveryCount:     delivered,
		HasDeliveryCount:  true,
		LinkCredit:        credit,
		HasLinkCredit:     true,
	}
}

// Transfer returns a transfer of a whole message in one frame.
func Transfer(handle, id uint32, payload []byte) *wire.Transfer {
	return &wire.Transfer{
		Handle:        handle,
		DeliveryID:    id,
		HasDeliveryID: true,
		DeliveryTag:   []byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)},
		Payload:       payload,
	}
}

// Token returns a shared access signature.
func Token(policy, key, resource string, until time.Time) string {
	sr := strings.ToLower(url.QueryEscape(resource))
	se := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(sr + "\n" + se))
	sig := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))

	return "SharedAccessSignature sr=" + sr + "&sig=" + sig + "&se=" + se + "&skn=" + policy
}

// Authorize puts a token for the whole namespace. It uses a session on channel and ends
// it. It returns the status code.
func (c *Client) Authorize(channel uint16, policy, key string) (int32, error) {
	return c.PutToken(channel, "amqp://localhost/", Token(policy, key, "amqp://localhost/", time.Now().Add(time.Hour)))
}

// PutToken puts a shared access signature for an audience, on a session of its own, and returns
// the status code.
func (c *Client) PutToken(channel uint16, audience, token string) (int32, error) {
	return c.put(channel, token, wire.Map{{Key: "type", Value: "servicebus.windows.net:sastoken"}, {Key: "name", Value: audience}})
}

// PutIdentity puts an identity's token that expires as expiration says.
func (c *Client) PutIdentity(channel uint16, audience string, expiration any) (int32, error) {
	return c.put(channel, "e30.e30.", wire.Map{{Key: "type", Value: "jwt"}, {Key: "name", Value: audience}, {Key: "expiration", Value: expiration}})
}

func (c *Client) put(channel uint16, token string, properties wire.Map) (int32, error) {
	if err := c.Begin(channel); err != nil {
		return 0, err
	}

	if _, err := c.AttachSender(channel, 0, "$cbs"); err != nil {
		return 0, err
	}

	if err := c.AttachReceiver(Receiver{Channel: channel, Handle: 1, Address: "$cbs", Target: "reply", Settled: true}); err != nil {
		return 0, err
	}

	if _, err := Expect[*wire.Attach](c); err != nil {
		return 0, err
	}

	b := wire.AppendDescriptor(nil, wire.CodeProperties)
	b, at := wire.BeginList(b)
	b = wire.AppendString(b, "1")
	b = wire.AppendNull(wire.AppendNull(wire.AppendNull(b)))
	b = wire.EndCompound(wire.AppendString(b, "reply"), at, 5)
	b = wire.AppendMap(wire.AppendDescriptor(b, wire.CodeApplicationProperties), append(properties, wire.Pair{Key: "operation", Value: "put-token"}))
	b = wire.AppendString(wire.AppendDescriptor(b, wire.CodeValue), token)

	c.Queue(wire.FrameAMQP, channel, CreditFlow(1, 0, 10))
	c.Queue(wire.FrameAMQP, channel, Transfer(0, 0, b))

	if err := c.Flush(); err != nil {
		return 0, err
	}

	code, err := c.awaitStatus()
	if err != nil {
		return 0, err
	}

	if err := c.Send(channel, &wire.End{}); err != nil {
		return 0, err
	}

	_, err = Expect[*wire.End](c)

	return code, err
}

// awaitStatus returns the status code of the next response. The disposition of the
// request may arrive before or after the response.
func (c *Client) awaitStatus() (int32, error) {
	var (
		code    int32
		settled bool
	)

	for code == 0 || !settled {
		p, err := c.Receive()
		if err != nil {
			return 0, err
		}

		switch p := p.(type) {
		case *wire.Disposition:
			settled = true
		case *wire.Transfer:
			d := wire.NewDecoder(p.Payload)
			d.Descriptor()
			d.Skip()
			d.Descriptor()

			v, _ := d.Map().Get("status-code")
			code, _ = v.(int32)
		case *wire.Flow:
		default:
			return 0, fmt.Errorf("%w: %T", ErrUnexpected, p)
		}
	}

	return code, nil
}

// Close closes the connection and waits for the server's close.
func (c *Client) Close() error {
	if err := c.Send(0, &wire.Close{}); err != nil {
		return err
	}

	for {
		p, err := c.Receive()
		if err != nil {
			return err
		}

		if _, ok := p.(*wire.Close); ok {
			break
		}
	}

	if err := c.Net.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}

	return nil
}
