package sbemu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// TestMalformedPeersOverSockets: whatever other peers send on their connections, a client
// keeps its connection, its session and its received messages.
func TestMalformedPeersOverSockets(t *testing.T) {
	t.Parallel()

	cfg := sbemu.Default()
	cfg.Topics[0].Subscriptions[0].LockDuration = 5 * time.Minute
	e := socket(t, cfg)
	c := e.client()
	s := e.sender(c, "events")
	e.send(s, "a", "1", "2")

	r := e.acceptNext(c)
	held := e.receive(r, 1)[0]
	before := e.Connections()
	equal(t, "connections", len(before), 1)

	amqp, sasl := "AMQP\x00\x01\x00\x00", "AMQP\x03\x01\x00\x00"
	frame := func(kind byte, body string) string {
		return string(append(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), 2, kind, 0, 0)) + body
	}
	anonymous := sasl + frame(1, "\x00\x53\x41\xc0\x0c\x01\xa3\x09ANONYMOUS") + amqp
	open := anonymous + frame(0, "\x00\x53\x10\xc0\x04\x01\xa1\x01c")

	for name, sent := range map[string]string{
		"nothing":                  "",
		"HTTP":                     "GET / HTTP/1.1\r\n\r\n",
		"half a header":            "AMQ",
		"another version":          "AMQP\x00\x02\x00\x00",
		"no SASL frame":            sasl + strings.Repeat("\xff", 1000),
		"a frame of 2 GiB":         anonymous + "\x7f\xff\xff\xff\x02\x00\x00\x00",
		"a frame without a header": anonymous + "\x00\x00\x00\x01\x02\x00\x00\x00",
		"half a frame":             anonymous + "\x00\x00\x10\x00\x02\x00\x00\x00\x00\x53",
		"no open":                  anonymous + frame(0, "\x00\x53\x11\x45"),
		"a list without end":       open + frame(0, "\x00\x53\x12\xd0\xff\xff\xff\xff\xff\xff\xff\xff"),
		"deep nesting":             open + frame(0, "\x00\x53\x11\xc0\xfa\x01"+strings.Repeat("\x00", 248)),
		"an unknown frame":         open + frame(0, "\x00\x53\x99\x45"),
		"a link without a session": open + frame(0, "\x00\x53\x12\xc0\x05\x03\xa1\x01x\x43\x41"),
	} {
		var d net.Dialer

		peer, err := d.DialContext(e.ctx, "tcp", e.Addr().String())
		must(t, err)

		_, err = io.WriteString(peer, sent)
		must(t, err)

		if tcp, ok := peer.(*net.TCPConn); ok {
			must(t, tcp.CloseWrite())
		}

		// The server must end the connection; its frames before that do not matter.
		must(t, peer.SetReadDeadline(time.Now().Add(time.Minute)))

		if _, err := io.Copy(io.Discard, peer); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is kept", name)
		}

		_ = peer.Close()
	}

	e.send(s, "a", "3")
	must(t, r.CompleteMessage(e.ctx, held, nil))
	equal(t, "order", fmt.Sprint(ids(e.receive(r, 2))), "[2 3]")

	if !slices.ContainsFunc(e.Connections(), func(c sbemu.Connection) bool { return c.ID == before[0].ID }) {
		t.Errorf("the connection is another: %+v", e.Connections())
	}
}
