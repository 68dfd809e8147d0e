package mongoemu

import (
	"bufio"
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/command"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

const (
	// readBuffer is the size of a connection's read buffer in bytes.
	readBuffer = 4 << 10
	// largeReply is the size in bytes from which on a reply is not copied to send it in one
	// piece.
	largeReply = 16 << 10
)

// conn is one client connection. One goroutine reads it and another one serves it.
type conn struct {
	server *Server
	net    net.Conn
	state  command.Conn
	sent   int32  // request ids of replies
	buffer []byte // of the last reply, for the next one
	app    atomic.Pointer[string]
}

// named reports whether the client has one of these application names.
func (c *conn) named(names []string) bool {
	app := c.app.Load()
	return app != nil && slices.Contains(names, *app)
}

func (s *Server) newConn(nc net.Conn) *conn {
	return &conn{server: s, net: nc, state: command.Conn{ID: s.nextConn.Add(1)}}
}

// serve answers messages until the client disconnects or sends an invalid message, or the
// server closes. When a client disconnects, its reads are interrupted, but its writes are
// finished.
func (c *conn) serve(ctx context.Context) {
	present, leave := context.WithCancelCause(ctx)
	messages := make(chan *wire.Message)
	go func() {
		defer close(messages)
		leave(c.read(present, messages))
	}()
	for m := range messages {
		if !c.answer(ctx, present, m) {
			break
		}
	}
	leave(nil)
	_ = c.net.Close()
	for range messages { // until the reader has ended
	}
}

// read passes messages on until there are no more, and returns why.
func (c *conn) read(ctx context.Context, messages chan<- *wire.Message) error {
	r := bufio.NewReaderSize(c.net, readBuffer)
	for {
		m, err := wire.Read(r)
		if err != nil {
			// The peer has disconnected, or has sent an invalid message.
			return mongoerr.New(mongoerr.ClientDisconnect, "operation was interrupted because the client has gone: %v", err)
		}
		select {
		case messages <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

// answer sends the reply to a message, or repeated replies to a client that has asked for
// them. The context present ends when the client disconnects.
func (c *conn) answer(ctx, present context.Context, m *wire.Message) bool {
	respondTo := m.RequestID
	for repeat := 0; ; repeat++ {
		reply := c.server.engine.Handle(ctx, present, &c.state, m, repeat)
		if app := c.state.AppName; c.app.Load() == nil && app != "" {
			c.app.Store(&app)
		}
		if reply.Close {
			return false
		}
		if reply.Body == nil {
			return true
		}
		c.sent++
		if !c.send(m, reply, respondTo) {
			return false
		}
		if !reply.Again || present.Err() != nil {
			return true
		}
		respondTo = c.sent
	}
}

func (c *conn) send(m *wire.Message, reply command.Reply, respondTo int32) bool {
	header := c.buffer[:0]
	if m.Opcode == wire.OpQuery {
		header = wire.AppendReplyHeader(header, c.sent, respondTo, len(reply.Body))
	} else {
		flags := uint32(0)
		if reply.Again {
			flags = wire.FlagMoreToCome
		}
		header = wire.AppendMsgHeader(header, c.sent, respondTo, flags, len(reply.Body))
	}
	if len(reply.Body) > largeReply {
		parts := net.Buffers{header, reply.Body}
		_, err := parts.WriteTo(c.net)
		return err == nil
	}
	c.buffer = append(header, reply.Body...)
	_, err := c.net.Write(c.buffer)
	return err == nil
}
