package front_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// putToken is a request to $cbs that expects its answer at an address, or names none.
func putToken(replyTo any) []byte {
	token := rawclient.Token("p", "k", "amqp://localhost/", time.Now().Add(time.Hour))
	b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{"id", nil, nil, nil, replyTo})
	b = wire.AppendMap(wire.AppendDescriptor(b, wire.CodeApplicationProperties), wire.Map{
		{Key: "operation", Value: "put-token"},
		{Key: "type", Value: "servicebus.windows.net:sastoken"},
		{Key: "name", Value: "amqp://localhost/"},
	})

	return wire.AppendString(wire.AppendDescriptor(b, wire.CodeValue), token)
}

// status decodes the application properties of a reply.
func status(tb testing.TB, payload []byte) wire.Map {
	tb.Helper()

	d := wire.NewDecoder(payload)
	d.Descriptor()
	d.Skip()
	d.Descriptor()

	m := d.Map()
	check(tb, d.Err())

	return m
}

// TestReplyReachesEveryClient sends a request to $cbs as each SDK does, and expects
// the acceptance of the request, then the reply.
func TestReplyReachesEveryClient(t *testing.T) {
	for _, client := range []struct {
		name    string
		target  string // of the link for replies
		replyTo any
	}{
		{"Go: the address of the link's target", "replies", "replies"},
		{"JavaScript: the name of the link", "", "the-link"},
		{"Python: nothing", "$cbs", nil},
	} {
		t.Run(client.name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t

				c, err := rawclient.Open(s.pipe())
				check(t, err)
				check(t, c.Begin(0))

				_, err = c.AttachSender(0, 0, "$cbs")
				check(t, err)
				attachReceiver(t, c, rawclient.Receiver{Handle: 1, Name: "the-link", Address: "$cbs", Target: client.target, Settled: true})
				check(t, c.Credit(0, 1, 0, 10))
				check(t, c.Send(0, rawclient.Transfer(0, 0, putToken(client.replyTo))))

				d, err := rawclient.Expect[*wire.Disposition](c)
				check(t, err)

				if d.State.Code != wire.CodeAccepted {
					t.Fatalf("disposition %+v", d)
				}

				reply, err := rawclient.Expect[*wire.Transfer](c)
				check(t, err)

				got := status(t, reply.Payload)
				if code, _ := got.Get("status-code"); code != int32(202) {
					t.Errorf("status %v", got)
				}

				if _, both := got.Get("statusCode"); both {
					t.Errorf("status %v has the names of management nodes, too", got)
				}

				check(t, c.Close())
			})
		})
	}
}

// TestAmbiguousReplyIsNotSent: a request without a reply-to is answered only if its
// session has one link that could be meant.
func TestAmbiguousReplyIsNotSent(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		_, err := c.AttachSender(0, 0, "q/$management")
		check(t, err)

		for handle := uint32(1); handle <= 2; handle++ {
			attachReceiver(t, c, rawclient.Receiver{Handle: handle, Address: "q/$management", Settled: true})
			check(t, c.Credit(0, handle, 0, 10))
		}

		request := wire.AppendMap(wire.AppendDescriptor(nil, wire.CodeApplicationProperties), wire.Map{{Key: "operation", Value: "none"}})
		check(t, c.Send(0, rawclient.Transfer(0, 0, request)))
		_, err = rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		// With one link left, the same request is answered there.
		check(t, c.Send(0, &wire.Detach{Handle: 1, Closed: true}))
		_, err = rawclient.Expect[*wire.Detach](c)
		check(t, err)
		check(t, c.Send(0, rawclient.Transfer(0, 1, request)))
		_, err = rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		reply, err := rawclient.Expect[*wire.Transfer](c)
		check(t, err)

		got := status(t, reply.Payload)
		if code, _ := got.Get("statusCode"); reply.Handle != 2 || code != int32(400) {
			t.Errorf("reply on handle %d with %v", reply.Handle, got)
		}

		check(t, c.Close())
	})
}

// TestGrantedFilterHasTheRequestedForm: Go decodes a described value only, JavaScript
// compares with a plain string.
func TestGrantedFilterHasTheRequestedForm(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		descriptor := uint64(0x137000000C)

		for i, form := range []struct{ asked, want any }{
			{"a", "a"},
			{wire.Described{Descriptor: descriptor, Value: "b"}, wire.Described{Descriptor: descriptor, Value: "b"}},
		} {
			check(t, c.AttachReceiver(rawclient.Receiver{
				Handle: uint32(i), Address: subscription,
				Filter: wire.Map{{Key: wire.Symbol("com.microsoft:session-filter"), Value: form.asked}},
			}))

			reply, err := rawclient.Expect[*wire.Attach](c)
			check(t, err)

			if got, _ := reply.Source.Filter.Get("com.microsoft:session-filter"); got != form.want {
				t.Errorf("filter %#v is answered by %#v, want %#v", form.asked, got, form.want)
			}
		}

		check(t, c.Close())
	})
}

// TestDeferredMessageIsSettledByItsSession: JavaScript names the session and no link.
func TestDeferredMessageIsSettledByItsSession(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		_, err := c.AttachSender(0, 0, "events")
		check(t, err)

		b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{"1", nil, nil, nil, nil, nil, nil, nil, nil, nil, "a"})
		check(t, c.Send(0, rawclient.Transfer(0, 0, b)))
		_, err = rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		attachReceiver(t, c, rawclient.Receiver{Handle: 1, Name: "held", Address: subscription, Filter: rawclient.NamedSession("a")})
		check(t, c.Credit(0, 1, 0, 1))
		_, err = rawclient.Expect[*wire.Transfer](c)
		check(t, err)
		check(t, c.Send(0, &wire.Disposition{Role: wire.RoleReceiver, State: wire.State{Code: wire.CodeModified, UndeliverableHere: true}}))
		_, err = rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		node := s.manage(c, subscription)
		node.sent++ // deliveries are numbered by session

		code, body := node.call("receive-by-sequence-number", wire.Map{{Key: "associated-link-name", Value: "held"}}, wire.Map{
			{Key: "sequence-numbers", Value: []any{int64(1)}}, {Key: "receiver-settle-mode", Value: uint32(1)},
		})
		if code != 200 {
			t.Fatalf("status %d", code)
		}

		found, _ := body.Get("messages")
		token, _ := found.([]any)[0].(wire.Map).Get("lock-token")
		complete := func(session string) int32 {
			code, _ := node.call("update-disposition", nil, wire.Map{
				{Key: "session-id", Value: session},
				{Key: "disposition-status", Value: "completed"},
				{Key: "lock-tokens", Value: wire.Raw(wire.AppendUUIDs(nil, []wire.UUID{token.(wire.UUID)}))},
			})

			return code
		}

		if code := complete("b"); code != 410 {
			t.Errorf("status %d for a session that is not held, want 410", code)
		}

		if code := complete("a"); code != 200 {
			t.Errorf("status %d, want 200", code)
		}
	})
}
