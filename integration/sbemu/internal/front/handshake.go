package front

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// saslMechanisms are the mechanisms that the service offers.
var saslMechanisms = []wire.Symbol{"MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"}

// errHandshake means that a client violated the protocol during the handshake.
var errHandshake = errors.New("handshake failed")

// handshake negotiates the protocol layers up to the exchange of opens.
func (c *conn) handshake() error {
	_ = c.net.SetDeadline(time.Now().Add(handshakeTimeout))

	id, err := c.frames.Protocol()
	if err != nil || id != wire.ProtocolAMQP && id != wire.ProtocolSASL {
		_, _ = c.net.Write(wire.ProtocolHeader(wire.ProtocolSASL))

		return fmt.Errorf("%w: %w", errHandshake, err)
	}

	if id == wire.ProtocolSASL {
		if err := c.sasl(); err != nil {
			return err
		}

		if id, err = c.frames.Protocol(); err != nil || id != wire.ProtocolAMQP {
			return fmt.Errorf("%w: protocol %d after SASL", errHandshake, id)
		}
	}

	if _, err := c.net.Write(wire.ProtocolHeader(wire.ProtocolAMQP)); err != nil {
		return fmt.Errorf("write protocol header: %w", err)
	}

	if err := c.open(); err != nil {
		return err
	}

	_ = c.net.SetDeadline(time.Time{})
	c.opened.Store(true)

	return nil
}

func (c *conn) sasl() error {
	hello := wire.ProtocolHeader(wire.ProtocolSASL)
	hello = appendSASL(hello, &wire.SASLMechanisms{Mechanisms: saslMechanisms})

	if _, err := c.net.Write(hello); err != nil {
		return fmt.Errorf("write SASL mechanisms: %w", err)
	}

	p, err := c.readPerformative(wire.FrameSASL)
	if err != nil {
		return err
	}

	init, ok := p.(*wire.SASLInit)
	if !ok {
		return fmt.Errorf("%w: %T instead of a SASL init", errHandshake, p)
	}

	outcome := &wire.SASLOutcome{Code: 1}

	switch init.Mechanism {
	case "ANONYMOUS", "EXTERNAL", "MSSBCBS":
		outcome.Code = 0
	case "PLAIN":
		if c.plain(init.Response) {
			outcome.Code = 0
		}
	}

	if _, err := c.net.Write(appendSASL(nil, outcome)); err != nil {
		return fmt.Errorf("write SASL outcome: %w", err)
	}

	if outcome.Code != 0 {
		return fmt.Errorf("%w: SASL %s refused", errHandshake, init.Mechanism)
	}

	return nil
}

// plain checks the name and key of a policy, and grants the policy's rights on the whole
// namespace.
func (c *conn) plain(response []byte) bool {
	parts := bytes.SplitN(response, []byte{0}, 3)
	if len(parts) != 3 {
		return false
	}

	for _, p := range c.srv.opts.Policies() {
		if p.Name == string(parts[1]) && p.Key == string(parts[2]) {
			c.grants.add("", p.Rights, time.Time{})

			return true
		}
	}

	return false
}

func (c *conn) open() error {
	p, err := c.readPerformative(wire.FrameAMQP)
	if err != nil {
		return err
	}

	open, ok := p.(*wire.Open)
	if !ok {
		return fmt.Errorf("%w: %T instead of an open", errHandshake, p)
	}

	c.container = open.ContainerID
	c.peerFrame = max(wire.MinMaxFrameSize, int(min(open.MaxFrameSize, maxFrameSize)))
	c.peerIdle = time.Duration(open.IdleTimeout) * time.Millisecond

	reply := &wire.Open{
		ContainerID:  fmt.Sprintf("sbemu_%d", c.id),
		Hostname:     open.Hostname,
		MaxFrameSize: maxFrameSize,
		ChannelMax:   channelMax,
		IdleTimeout:  uint32(idleTimeout / time.Millisecond),
		Properties:   wire.Map{{Key: wire.Symbol("product"), Value: "sbemu"}},
	}

	b, at := wire.BeginFrame(nil, wire.FrameAMQP, 0)
	if _, err := c.net.Write(wire.EndFrame(reply.Append(b), at)); err != nil {
		return fmt.Errorf("write open: %w", err)
	}

	return nil
}

// readPerformative reads one frame of a type during the handshake.
func (c *conn) readPerformative(typ byte) (wire.Performative, error) {
	f, err := c.frames.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}

	if f.Type != typ {
		return nil, fmt.Errorf("%w: frame type %d", errHandshake, f.Type)
	}

	p, err := wire.Decode(f.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}

	return p, nil
}

func appendSASL(b []byte, p wire.Performative) []byte {
	b, at := wire.BeginFrame(b, wire.FrameSASL, 0)

	return wire.EndFrame(p.Append(b), at)
}
