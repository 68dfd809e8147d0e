package sbemu_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"golang.org/x/sync/errgroup"

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

// BenchmarkRaw sends messages over many sessions, each in a transfer of its own, and
// receives and completes them, with a raw AMQP client.
func BenchmarkRaw(b *testing.B) {
	for _, sessions := range []int{16, 1024} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkRaw(b, sessions) })
	}
}

// BenchmarkLoad sends, receives and completes a million messages over ten thousand
// sessions. It reports the largest heap during that time, including the client's.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		stop := make(chan struct{})
		peak := make(chan uint64)

		go func() {
			var most uint64

			for ticker := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-ticker.C:
					var m runtime.MemStats

					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				case <-stop:
					ticker.Stop()
					peak <- most

					return
				}
			}
		}()

		elapsed := load(b, 10_000, 1_000_000)

		close(stop)
		b.ReportMetric(1_000_000/elapsed.Seconds(), "messages/s")
		b.ReportMetric(float64(<-peak)/(1<<20), "peak-heap-MiB")
	}
}

func benchmarkRaw(b *testing.B, sessions int) {
	b.Helper()
	b.ReportAllocs()

	elapsed := load(b, sessions, b.N)

	b.ReportMetric(float64(b.N)/elapsed.Seconds(), "messages/s")
}

// load sends n messages, receives and completes them, and returns how long that took.
func load(b *testing.B, sessions, n int) time.Duration {
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

	go func() { errs <- drain(srv, sessions, n, ready) }()

	select {
	case <-ready:
	case err := <-errs:
		b.Fatal(err)
	}

	b.ResetTimer()

	start := time.Now()

	go func() { errs <- publish(srv, sessions, n) }()

	for range 2 {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}

	elapsed := time.Since(start)

	totals, err := srv.Totals("events")
	if err != nil || totals.Accepted != int64(n) {
		b.Fatalf("%+v were taken in of %d: %v", totals, n, err)
	}

	return elapsed
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

// drain accepts all sessions on one connection, and receives and completes n of their
// messages.
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

// BenchmarkSDK sends messages with the SDK over 64 sessions, each one at a time, and
// receives and completes them with the SDK.
func BenchmarkSDK(b *testing.B) {
	srv, err := sbemu.New(sbemu.Default())
	if err != nil {
		b.Fatal(err)
	}

	if err := srv.Start(); err != nil {
		b.Fatal(err)
	}

	defer func() { _ = srv.Close() }()

	const lanes = 64

	ctx := b.Context()
	per := b.N/lanes + 1

	client := func() *azservicebus.Client {
		c, err := azservicebus.NewClientFromConnectionString(srv.ConnectionString(), nil)
		if err != nil {
			b.Fatal(err)
		}

		return c
	}

	out, in := client(), client()

	sender, err := out.NewSender("events", nil)
	if err != nil {
		b.Fatal(err)
	}

	var (
		group errgroup.Group
		ready sync.WaitGroup
		start = make(chan struct{})
	)

	ready.Add(lanes)

	for lane := range lanes {
		session := fmt.Sprint("s", lane)

		group.Go(func() error {
			r, err := in.AcceptSessionForSubscription(ctx, "events", "projector", session, nil)
			ready.Done()

			if err != nil {
				return err
			}

			for n := 0; n < per; {
				msgs, err := r.ReceiveMessages(ctx, 1, nil)
				if err != nil {
					return err
				}

				for _, m := range msgs {
					if err := r.CompleteMessage(ctx, m, nil); err != nil {
						return err
					}

					n++
				}
			}

			return r.Close(ctx)
		})
		group.Go(func() error {
			<-start

			for i := range per {
				id := fmt.Sprint(lane, "/", i)
				m := &azservicebus.Message{MessageID: &id, SessionID: &session, Body: make([]byte, 512)}

				if err := sender.SendMessage(ctx, m, nil); err != nil {
					return err
				}
			}

			return nil
		})
	}

	ready.Wait()
	b.ResetTimer()
	close(start)

	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}

	b.ReportMetric(float64(per*lanes)/b.Elapsed().Seconds(), "messages/s")
	b.StopTimer()

	for _, c := range []*azservicebus.Client{out, in} {
		if err := c.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
