package sbemu_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// encodeMessage encodes a message of a session with a body of size bytes.
func encodeMessage(b []byte, id, session string, body []byte) []byte {
	b = wire.AppendDescriptor(b, wire.CodeProperties)
	b, at := wire.BeginList(b)
	b = wire.AppendString(b, id)

	for range 9 {
		b = wire.AppendNull(b)
	}

	b = wire.EndCompound(wire.AppendString(b, session), at, 11)

	return wire.AppendBinary(wire.AppendDescriptor(b, wire.CodeData), body)
}

// BenchmarkRaw sends messages, each in a transfer of its own, over many
// sessions, and receives and completes them, through a raw AMQP client.
func BenchmarkRaw(b *testing.B) {
	for _, sessions := range []int{16, 1024} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkRaw(b, sessions) })
	}
}

func benchmarkRaw(b *testing.B, sessions int) {
	b.Helper()

	srv, err := sbemu.New(sbemu.Default())
	if err != nil {
		b.Fatal(err)
	}

	if err := srv.Start(); err != nil {
		b.Fatal(err)
	}

	defer func() { _ = srv.Close() }()

	ready := make(chan struct{})
	errs := make(chan error, 2)

	go func() { errs <- drain(srv, sessions, b.N, ready) }()

	<-ready
	b.ReportAllocs()
	b.ResetTimer()

	go func() { errs <- publish(srv, sessions, b.N) }()

	for range 2 {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}

	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func connect(srv *sbemu.Server) (*rawclient.Client, error) {
	c, err := rawclient.Dial(srv.Addr().String())
	if err != nil {
		return nil, err
	}

	if _, err = c.Authorize(0, sbemu.DefaultPolicy, sbemu.DefaultKey); err != nil {
		return nil, err
	}

	return c, nil
}

// publish sends n messages with up to 1,000 of them unacknowledged.
func publish(srv *sbemu.Server, sessions, n int) error {
	c, err := connect(srv)
	if err != nil {
		return err
	}

	if err := c.Begin(0); err != nil {
		return err
	}

	if _, err := c.AttachSender(0, 0, "events"); err != nil {
		return err
	}

	var (
		body    = make([]byte, 512)
		payload []byte
		acked   = 0
	)

	for sent := 0; acked < n; {
		for sent < n && sent-acked < 1000 {
			binary.BigEndian.PutUint64(body, uint64(sent))
			payload = encodeMessage(payload[:0], fmt.Sprintf("m%d", sent), fmt.Sprintf("s%d", sent%sessions), body)
			c.Queue(wire.FrameAMQP, 0, rawclient.Transfer(0, uint32(sent), payload))
			sent++
		}

		if err := c.Flush(); err != nil {
			return err
		}

		for acked < sent && (sent == n || sent-acked > 500) {
			d, err := rawclient.Expect[*wire.Disposition](c)
			if err != nil {
				return err
			}

			if d.State.Code != wire.CodeAccepted {
				return d.State.Error
			}

			acked = int(d.Last) + 1
		}
	}

	return c.Close()
}

// drain accepts all sessions on one connection, and receives and completes n
// messages of them.
func drain(srv *sbemu.Server, sessions, n int, ready chan<- struct{}) error {
	c, err := connect(srv)
	if err != nil {
		return err
	}

	const perChannel = 200

	counts := make([]uint32, sessions)

	for i := range sessions {
		channel, handle := uint16(i/perChannel), uint32(i%perChannel)

		if handle == 0 {
			if err := c.Begin(channel); err != nil {
				return err
			}
		}

		if err := c.AttachReceiver(rawclient.Receiver{
			Channel: channel, Handle: handle,
			Address: "events/Subscriptions/projector",
			Filter:  rawclient.NamedSession(fmt.Sprintf("s%d", i)),
		}); err != nil {
			return err
		}

		if _, err := rawclient.Expect[*wire.Attach](c); err != nil {
			return err
		}

		if err := c.Credit(channel, handle, 0, 1000); err != nil {
			return err
		}
	}

	close(ready)

	received := make([]uint32, (sessions+perChannel-1)/perChannel)

	for got, settled := 0, 0; settled < n; {
		channel, p, err := c.ReceiveOn()
		if err != nil {
			return err
		}

		switch p := p.(type) {
		case *wire.Transfer:
			got++
			received[channel]++

			i := int(channel)*perChannel + int(p.Handle)
			counts[i]++

			c.Queue(wire.FrameAMQP, channel, &wire.Disposition{
				Role: wire.RoleReceiver, First: p.DeliveryID, Last: p.DeliveryID, State: wire.Accepted,
			})

			if counts[i]%500 == 0 {
				f := rawclient.CreditFlow(p.Handle, counts[i], 1000)
				f.NextIncomingID = received[channel]
				c.Queue(wire.FrameAMQP, channel, f)
			}
		case *wire.Disposition:
			if p.State.Code != wire.CodeAccepted {
				return p.State.Error
			}

			settled += int(p.Last-p.First) + 1
		}

		if c.Queued() > 0 && !c.Buffered() {
			if err := c.Flush(); err != nil {
				return err
			}
		}
	}

	return c.Close()
}
