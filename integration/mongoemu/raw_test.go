package mongoemu_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// rawClient speaks OP_MSG itself, so that a test sees complete replies.
type rawClient struct {
	t    testing.TB
	conn net.Conn
	id   uint32
}

func dialRaw(tb testing.TB, s *mongoemu.Server) *rawClient {
	tb.Helper()
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &rawClient{t: tb, conn: conn}
}

// run sends a command to a database and returns the reply, even if that is an error.
func (c *rawClient) run(db string, command bson.D) bson.D {
	c.t.Helper()
	return c.exchange(append(append(bson.D{}, command...), bson.E{Key: "$db", Value: db}))
}

// exchange sends a command unchanged.
func (c *rawClient) exchange(command bson.D) bson.D {
	c.t.Helper()
	body, err := bson.Marshal(command)
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(body)
	var reply bson.D
	if err := bson.Unmarshal(c.receive(), &reply); err != nil {
		c.t.Fatal(err)
	}
	return reply
}

func (c *rawClient) send(body []byte) {
	c.t.Helper()
	c.id++
	msg := binary.LittleEndian.AppendUint32(nil, uint32(21+len(body)))
	msg = binary.LittleEndian.AppendUint32(msg, c.id)
	msg = binary.LittleEndian.AppendUint32(msg, 0)
	msg = binary.LittleEndian.AppendUint32(msg, 2013)
	msg = append(msg, 0, 0, 0, 0, 0)
	if _, err := c.conn.Write(append(msg, body...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) receive() []byte {
	c.t.Helper()
	var header [21]byte
	if _, err := io.ReadFull(c.conn, header[:]); err != nil {
		c.t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(header[8:]); got != c.id {
		c.t.Fatalf("reply to %d, want %d", got, c.id)
	}
	body := make([]byte, binary.LittleEndian.Uint32(header[:])-21)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		c.t.Fatal(err)
	}
	return body
}

func get(d bson.D, path ...string) any {
	var v any = d
	for _, key := range path {
		inner, ok := v.(bson.D)
		if !ok {
			return nil
		}
		v = nil
		for _, e := range inner {
			if e.Key == key {
				v = e.Value
			}
		}
	}
	return v
}

// lsid is the id of a session.
func lsid(n int64) bson.D {
	id := [16]byte{15: byte(n)}
	return bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: id[:]}}}
}
