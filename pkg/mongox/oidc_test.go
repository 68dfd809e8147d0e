package mongox_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// The connection string of docs/install.md makes the driver send the token of the file
// that the chart names, and no password.
func TestWorkloadTokenLogsIn(t *testing.T) {
	const token = "header.claims.signature"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	// The environment is that outside Azure's workload identity, whose token would be
	// preferred.
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	server := newLoginServer(t)
	client, err := mongox.Open("mongodb://"+server.address+"/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s", mongox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	if err := client.Ping(t.Context(), readpref.Primary()); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-server.tokens:
		if got != token {
			t.Errorf("the server was given the token %q, want %q", got, token)
		}
	case <-time.After(time.Minute):
		t.Error("the server was given no token")
	}
}

// loginServer answers the handshake, the login and the pings of a driver.
type loginServer struct {
	address string
	tokens  chan string
}

func newLoginServer(t *testing.T) *loginServer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &loginServer{address: listener.Addr().String(), tokens: make(chan string, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// A connection ends with its client, which the test disconnects before the
			// server stops.
			go s.serve(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return s
}

const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

func (s *loginServer) serve(conn net.Conn) {
	defer conn.Close()
	for {
		header := make([]byte, 16)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(header)-16)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		opcode := binary.LittleEndian.Uint32(header[12:])
		var command bson.Raw
		switch opcode {
		case opQuery:
			name := 4
			for body[name] != 0 {
				name++
			}
			command = bson.Raw(body[name+9:])
		case opMsg:
			command = bson.Raw(body[5:])
		default:
			return
		}
		answer, err := bson.Marshal(s.answer(command))
		if err != nil {
			return
		}
		if _, err := conn.Write(reply(opcode, header[4:8], answer)); err != nil {
			return
		}
	}
}

func (s *loginServer) answer(command bson.Raw) bson.D {
	elements, err := command.Elements()
	if err != nil || len(elements) == 0 {
		return bson.D{{Key: "ok", Value: 0}}
	}
	switch elements[0].Key() {
	case "saslStart":
		_, payload := command.Lookup("payload").Binary()
		s.tokens <- bson.Raw(payload).Lookup("jwt").StringValue()
		return bson.D{{Key: "conversationId", Value: 1}, {Key: "done", Value: true}, {Key: "payload", Value: []byte{}}, {Key: "ok", Value: 1}}
	case "ping", "endSessions":
		return bson.D{{Key: "ok", Value: 1}}
	}
	return bson.D{
		{Key: "ismaster", Value: true}, {Key: "isWritablePrimary", Value: true}, {Key: "helloOk", Value: true},
		{Key: "setName", Value: "rs0"}, {Key: "hosts", Value: bson.A{s.address}}, {Key: "me", Value: s.address}, {Key: "primary", Value: s.address},
		{Key: "maxBsonObjectSize", Value: 16 << 20}, {Key: "maxMessageSizeBytes", Value: 48_000_000}, {Key: "maxWriteBatchSize", Value: 100_000},
		{Key: "localTime", Value: time.Now()}, {Key: "logicalSessionTimeoutMinutes", Value: 30},
		{Key: "minWireVersion", Value: 0}, {Key: "maxWireVersion", Value: 25}, {Key: "ok", Value: 1},
	}
}

// reply is an answer with the id of its request.
func reply(opcode uint32, request, document []byte) []byte {
	var body []byte
	answer := uint32(opMsg)
	if opcode == opQuery {
		answer = opReply
		body = binary.LittleEndian.AppendUint32(make([]byte, 16), 1) // flags, cursor, start; one document
	} else {
		body = make([]byte, 5) // flags, and a section of kind 0
	}
	body = append(body, document...)
	message := binary.LittleEndian.AppendUint32(nil, uint32(16+len(body)))
	message = append(message, 0, 0, 0, 0)
	message = append(message, request...)
	message = binary.LittleEndian.AppendUint32(message, answer)
	return append(message, body...)
}
