package front_test

import (
	"io"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// FuzzConnection sends arbitrary bytes to a server after a session has begun. The server
// may close that connection, but must still serve another.
func FuzzConnection(f *testing.F) {
	frames := func(ps ...wire.Performative) []byte {
		var b []byte

		for _, p := range ps {
			var at int
			b, at = wire.BeginFrame(b, wire.FrameAMQP, 0)
			b = wire.EndFrame(p.Append(b), at)
		}

		return b
	}

	sender := &wire.Attach{Name: "s", Handle: 0, Role: wire.RoleSender, Target: &wire.Terminus{Address: "q"}}
	receiver := &wire.Attach{Name: "r", Handle: 1, Role: wire.RoleReceiver, Source: &wire.Terminus{Address: "q"}}
	session := &wire.Attach{Name: "n", Handle: 2, Role: wire.RoleReceiver,
		Source: &wire.Terminus{Address: subscription, Filter: rawclient.AnySession()}}
	management := &wire.Attach{Name: "m", Handle: 3, Role: wire.RoleSender, Target: &wire.Terminus{Address: "q/$management"}}

	f.Add(frames(sender, rawclient.Transfer(0, 0, encode("x")), receiver, rawclient.CreditFlow(1, 0, 10),
		&wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: 5, State: wire.Accepted}))
	f.Add(frames(session, &wire.Detach{Handle: 2, Closed: true}, &wire.End{}))
	f.Add(frames(management, rawclient.Transfer(3, 0, encode("x")), &wire.Flow{Echo: true}, &wire.Close{}))
	f.Add([]byte{0, 0, 0, 8, 2, 0, 0, 0})

	s := start(f)

	f.Fuzz(func(t *testing.T, b []byte) {
		nc := s.pipe()
		defer func() { _ = nc.Close() }()

		c, err := rawclient.Open(nc)
		check(t, err)
		_, err = c.Authorize(0, "p", "k")
		check(t, err)
		check(t, c.Begin(0))

		done := make(chan struct{})

		go func() {
			defer close(done)

			_, _ = io.Copy(io.Discard, nc)
		}()

		_ = nc.SetDeadline(time.Now().Add(time.Second))
		_, _ = nc.Write(b)
		_ = nc.Close()
		<-done

		(&server{Server: s.Server, t: t, pipes: s.pipes}).works()
	})
}
