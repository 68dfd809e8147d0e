package front_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// node is a client of a management node.
type node struct {
	*rawclient.Client

	t    testing.TB
	sent uint32
}

// manage attaches to a management node on handles 10 and 11.
func (s *server) manage(c *rawclient.Client, entity string) *node {
	s.t.Helper()

	_, err := c.AttachSender(0, 10, entity+"/$management")
	check(s.t, err)
	attachReceiver(s.t, c, rawclient.Receiver{Handle: 11, Address: entity + "/$management", Target: "replies", Settled: true})
	check(s.t, c.Credit(0, 11, 0, 100))

	return &node{Client: c, t: s.t}
}

// ask sends a request.
func (n *node) ask(operation string, properties, body wire.Map) error {
	b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{"id", nil, nil, nil, "replies"})
	properties = append(properties, wire.Pair{Key: "operation", Value: "com.microsoft:" + operation})
	b = wire.AppendMap(wire.AppendDescriptor(b, wire.CodeApplicationProperties), properties)
	b = wire.AppendMap(wire.AppendDescriptor(b, wire.CodeValue), body)
	n.sent++

	return n.Send(0, rawclient.Transfer(10, n.sent-1, b))
}

// call sends a request and returns the status and body of the response.
func (n *node) call(operation string, properties wire.Map, body wire.Map) (int32, wire.Map) {
	n.t.Helper()
	check(n.t, n.ask(operation, properties, body))

	for {
		p, err := n.Receive()
		check(n.t, err)

		transfer, ok := p.(*wire.Transfer)
		if !ok || transfer.Handle != 11 {
			continue
		}

		d := wire.NewDecoder(transfer.Payload)
		d.Descriptor()
		d.Skip()
		d.Descriptor()

		status, _ := d.Map().Get("statusCode")
		code, _ := status.(int32)

		var reply wire.Map

		if d.Len() > 0 {
			d.Descriptor()

			reply, _ = d.Value().(wire.Map)
		}

		check(n.t, d.Err())

		return code, reply
	}
}

func TestManagementStatusCodes(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 2)

		c := s.dial()
		attachReceiver(t, c, rawclient.Receiver{Name: "held", Handle: 0, Address: subscription, Filter: rawclient.NamedSession("a")})

		sub := s.manage(c, subscription)
		link := wire.Map{{Key: "associated-link-name", Value: "held"}}
		gone := wire.Map{{Key: "associated-link-name", Value: "gone"}}
		session := wire.Map{{Key: "session-id", Value: "a"}}
		mode := wire.Pair{Key: "receiver-settle-mode", Value: uint32(1)}
		all := wire.Pair{Key: "last-updated-time", Value: wire.Timestamp(253402300800000)}
		token := wire.Map{
			{Key: "lock-tokens", Value: wire.Raw(wire.AppendUUIDs(nil, []wire.UUID{{1}}))},
			{Key: "disposition-status", Value: "completed"},
		}

		for _, call := range []struct {
			operation  string
			properties wire.Map
			body       wire.Map
			want       int32
		}{
			{"renew-session-lock", link, session, 200},
			{"renew-session-lock", gone, session, 410},
			{"renew-session-lock", link, wire.Map{{Key: "session-id", Value: "b"}}, 410},
			{"renew-session-lock", nil, session, 410},
			{"renew-session-lock", link, nil, 400},
			{"get-session-state", link, session, 200},
			{"get-session-state", gone, session, 410},
			{"set-session-state", gone, session, 410},
			{"update-disposition", link, token, 410},
			{"update-disposition", link, nil, 400},
			{"renew-lock", link, token, 400}, // the session's lock must be renewed instead
			{"receive-by-sequence-number", link, wire.Map{{Key: "sequence-numbers", Value: []any{int64(7)}}, mode}, 404},
			{"receive-by-sequence-number", link, wire.Map{{Key: "sequence-numbers", Value: []any{int64(7)}}}, 400},
			{"receive-by-sequence-number", link, wire.Map{{Key: "sequence-numbers", Value: []any{}}, mode}, 400},
			{"receive-by-sequence-number", link, wire.Map{{Key: "sequence-numbers", Value: "7"}, mode}, 400},
			{"peek-message", link, wire.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(5)}}, 204},
			{"peek-message", link, wire.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(-1)}}, 400},
			{"peek-message", link, wire.Map{{Key: "message-count", Value: int32(5)}}, 400},
			{"peek-message", gone, wire.Map{{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(5)}}, 410},
			{"get-message-sessions", nil, wire.Map{all, {Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(100)}}, 204},
			{"get-message-sessions", nil, wire.Map{all, {Key: "skip", Value: int32(-1)}, {Key: "top", Value: int32(100)}}, 400},
			{"get-message-sessions", nil, wire.Map{all, {Key: "skip", Value: int32(0)}}, 400},
			{"get-message-sessions", nil, wire.Map{{Key: "skip", Value: int32(0)}, {Key: "top", Value: int32(100)}}, 400},
			{"set-session-state", link, append(wire.Map{{Key: "session-state", Value: "text"}}, session...), 400},
			{"update-disposition", link, wire.Map{token[0], {Key: "disposition-status", Value: "done"}}, 400},
			{"schedule-message", nil, wire.Map{{Key: "messages", Value: []any{}}}, 400}, // not possible on a subscription
			{"no-such-operation", nil, nil, 400},
		} {
			if got, _ := sub.call(call.operation, call.properties, call.body); got != call.want {
				t.Errorf("status of %s with %v and %v is %d, want %d", call.operation, call.properties, call.body, got, call.want)
			}
		}

		check(t, c.Close())

		queue := s.manage(s.dial(), "q")

		for _, call := range []struct {
			operation string
			body      wire.Map
			want      int32
		}{
			{"renew-lock", token, 410},
			{"renew-lock", wire.Map{{Key: "lock-tokens", Value: wire.Raw(wire.AppendUUIDs(nil, nil))}}, 400},
			{"renew-lock", wire.Map{{Key: "lock-tokens", Value: []any{"token"}}}, 400},
			{"cancel-scheduled-message", nil, 400},
			{"update-disposition", token, 410},
			{"cancel-scheduled-message", wire.Map{{Key: "sequence-numbers", Value: []any{int64(7)}}}, 404},
			{"schedule-message", nil, 400},
			{"schedule-message", wire.Map{{Key: "messages", Value: []any{wire.Map{{Key: "message", Value: []byte("nonsense")}}}}}, 400},
			{"schedule-message", wire.Map{{Key: "messages", Value: []any{wire.Map{{Key: "message", Value: encode("s")}}}}}, 200},
		} {
			if got, _ := queue.call(call.operation, nil, call.body); got != call.want {
				t.Errorf("status of %s with %v is %d, want %d", call.operation, call.body, got, call.want)
			}
		}

		code, reply := queue.call("peek-message", nil, wire.Map{
			{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(5)},
		})

		list, _ := reply.Get("messages")
		if msgs, _ := list.([]any); code != 200 || len(msgs) != 3 {
			t.Fatalf("peek answers %d with %v", code, list)
		}
	})
}
