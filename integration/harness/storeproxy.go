package harness

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// storeProxy forwards connections to the primary of a replica set, or to a mongos. On demand
// it holds commands back, as a slow network does. So a test can stop any server's clients in
// the middle of a transaction.
type storeProxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	// uri leads to the proxy, with the credentials of the server's own connection string.
	uri string

	mu    sync.Mutex
	holds []storeHold
	// healed is closed when the commands that are held back go on.
	healed chan struct{}
	conns  []net.Conn
	closed bool

	running sync.WaitGroup
}

// storeHold demands that a command is held back.
type storeHold struct {
	command, collection string
	n                   int
}

// startStoreProxy starts a proxy on a loopback port.
func startStoreProxy(client *mongo.Client, uri string) (*storeProxy, error) {
	o := options.Client().ApplyURI(uri)
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("read the connection string of MongoDB: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the services: %w", err)
	}
	p := &storeProxy{listener: listener, healed: make(chan struct{})}
	p.dial = func() (net.Conn, error) {
		target := o.Hosts[0]
		if len(o.Hosts) > 1 {
			// After an election the services' connections end, and the next ones lead to the
			// new primary.
			asking, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			hello, err := client.Database("admin").RunCommand(asking, bson.D{{Key: "hello", Value: 1}}).Raw()
			if err != nil {
				return nil, fmt.Errorf("ask for the primary: %w", err)
			}
			if primary, ok := hello.Lookup("primary").StringValueOK(); ok {
				target = primary
			}
		}
		if o.TLSConfig == nil {
			return net.Dial("tcp", target)
		}
		return tls.Dial("tcp", target, o.TLSConfig)
	}
	through := url.URL{Scheme: "mongodb", Host: listener.Addr().String(), Path: "/", RawQuery: "directConnection=true"}
	if o.Auth != nil {
		through.User = url.UserPassword(o.Auth.Username, o.Auth.Password)
		through.RawQuery += "&" + url.Values{"authSource": {o.Auth.AuthSource}}.Encode()
	}
	p.uri = through.String()
	p.running.Go(p.accept)
	return p, nil
}

func (p *storeProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		closed := p.closed
		p.mu.Unlock()
		if closed {
			p.close()
			return
		}
		p.running.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		p.running.Go(func() {
			p.forward(client, server)
			_ = server.Close()
		})
	}
}

// forward forwards the client's messages. A message that is held back is forwarded later,
// even if the client has gone.
func (p *storeProxy) forward(client io.Reader, server io.Writer) {
	const header = 16 // the first four bytes are the message's length
	for {
		message := make([]byte, header)
		if _, err := io.ReadFull(client, message); err != nil {
			return
		}
		message = slices.Grow(message, int(binary.LittleEndian.Uint32(message))-header)
		message = message[:binary.LittleEndian.Uint32(message)]
		if _, err := io.ReadFull(client, message[header:]); err != nil {
			return
		}
		if healed := p.held(message); healed != nil {
			<-healed
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// held returns until when a message is held back; nil if it is not.
func (p *storeProxy) held(message []byte) <-chan struct{} {
	const body, opMsg = 21, 2013 // after the header, the flags and the kind of the section
	if binary.LittleEndian.Uint32(message[12:]) != opMsg || len(message) < body {
		return nil
	}
	command, err := bson.Raw(message[body:]).IndexErr(0)
	if err != nil {
		return nil
	}
	collection, _ := command.Value().StringValueOK()
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.holds, func(h storeHold) bool {
		return h.n > 0 && h.command == command.Key() && (h.collection == "" || h.collection == collection)
	})
	if i < 0 {
		return nil
	}
	p.holds[i].n--
	return p.healed
}

// toHold counts the demands that still wait for some of their commands.
func (p *storeProxy) toHold() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := slices.DeleteFunc(slices.Clone(p.holds), func(h storeHold) bool { return h.n == 0 })
	return len(waiting)
}

// heal lets all commands go on.
func (p *storeProxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = nil
	close(p.healed)
	p.healed = make(chan struct{})
}

func (p *storeProxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = p.listener.Close()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}

// Close ends all connections.
func (p *storeProxy) Close() {
	p.heal()
	p.close()
	p.running.Wait()
}
