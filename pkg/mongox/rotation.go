package mongox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

// probeTimeout bounds one attempt to authenticate with new credentials.
const probeTimeout = 10 * time.Second

// rotation gives open clients new credentials when the files of their connection strings
// change. The zero value is ready to use. Its owner calls Stop before it disconnects the
// clients.
//
// A client of the driver keeps the user and the password of its connection string for ever.
// A new client is no way out: collections and cursors of the old one are in use in the whole
// process. So the client authenticates by a mechanism that asks for the current credentials
// for each connection ([rotatingMechanism]), and rotation closes the connections that were
// authenticated with earlier ones. To the process that is a short interruption of the network.
// The server would refuse these connections anyway when the earlier user is removed.
//
// Clients with the same connection string of the same file share credentials: they are tried
// once, and all clients use them from the same moment on.
type rotation struct {
	mu      sync.Mutex
	stop    context.CancelFunc
	ctx     context.Context //nolint:containedctx // it ends with Stop
	group   sync.WaitGroup
	stopped bool
	// shared are the credentials by file and connection string.
	shared map[[2]string]*credentials
}

// Stop ends the reading of all files.
func (r *rotation) Stop() {
	r.mu.Lock()
	r.stopped = true
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.group.Wait()
}

// follow lets a client take its credentials from a file. If the file is new, follow begins to
// read it.
func (r *rotation) follow(o *options.ClientOptions, uri, file string, logger zerolog.Logger) {
	if o.Auth == nil || !rotates(o.Auth.AuthMechanism) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{file, uri}
	c := r.shared[key]
	if c == nil {
		c = newCredentials(o, uri)
		if r.shared == nil {
			r.shared = make(map[[2]string]*credentials)
			r.ctx, r.stop = context.WithCancel(context.Background())
		}
		r.shared[key] = c
		if ctx := r.ctx; !r.stopped {
			r.group.Go(func() { secret.Follow(ctx, file, c.start, c.adopt, logger) })
		}
	}
	c.serve(o)
}

// credentials are the current user and password of one or several clients, and their open
// connections.
type credentials struct {
	// start is the connection string with which the clients were made.
	start  string
	dialer options.ContextDialer

	mu             sync.Mutex
	user, password string
	connections    map[net.Conn]struct{}
}

func newCredentials(o *options.ClientOptions, uri string) *credentials {
	c := &credentials{
		start: uri, dialer: o.Dialer, user: o.Auth.Username, password: o.Auth.Password,
		connections: make(map[net.Conn]struct{}),
	}
	if c.dialer == nil {
		c.dialer = &net.Dialer{}
	}
	return c
}

// serve lets a client take its credentials from c.
func (c *credentials) serve(o *options.ClientOptions) {
	o.SetDialer(c)
	auth := *o.Auth
	auth.AuthMechanismProperties = map[string]string{propertyMechanism: auth.AuthMechanism}
	auth.AuthMechanism = rotatingMechanism
	// The driver passes this function on to the mechanism unchanged.
	auth.OIDCMachineCallback = func(context.Context, *options.OIDCArgs) (*options.OIDCCredential, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return &options.OIDCCredential{AccessToken: url.UserPassword(c.user, c.password).String()}, nil
	}
	o.SetAuth(auth)
}

// DialContext implements [options.ContextDialer]. It remembers the connection.
func (c *credentials) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	remembered := &rememberedConn{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connections[remembered] = struct{}{}
	return remembered, nil
}

type rememberedConn struct {
	net.Conn
	credentials *credentials
}

// Close implements [net.Conn].
func (c *rememberedConn) Close() error {
	c.credentials.mu.Lock()
	delete(c.credentials.connections, c)
	c.credentials.mu.Unlock()
	return c.Conn.Close()
}

// adopt uses the user and the password of a changed connection string, if a server accepts
// them: with wrong ones, the open connections would be closed for nothing.
func (c *credentials) adopt(ctx context.Context, uri string) error {
	if withoutUser(uri) != withoutUser(c.start) {
		return errors.New("the connection string differs in more than its user and password: only these can change without a restart")
	}
	o, err := clientOptions(uri, Options{MaxPoolSize: 1, Dialer: c.dialer})
	if err != nil {
		return err
	}
	if o.Auth == nil {
		return errors.New("the connection string has no user and password any more")
	}
	if err := probe(ctx, o); err != nil {
		return fmt.Errorf("MongoDB does not accept the user and password: %w", sanitize(err, uri))
	}
	c.mu.Lock()
	c.user, c.password = o.Auth.Username, o.Auth.Password
	var earlier []net.Conn
	for conn := range c.connections {
		earlier = append(earlier, conn)
	}
	c.mu.Unlock()
	for _, conn := range earlier {
		_ = conn.Close()
	}
	return nil
}

// probe authenticates at a server. Ping needs no authentication, but the driver has no
// connection without it.
func probe(ctx context.Context, o *options.ClientOptions) error {
	client, err := mongo.Connect(o)
	if err != nil {
		return err
	}
	attempt, cancel := Timeout(ctx, probeTimeout)
	defer cancel()
	err = Explain(attempt, client.Ping(attempt, nil))
	_ = Disconnect(ctx, client)
	return err
}

// withoutUser is a connection string without its user and password.
func withoutUser(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	hosts, query, _ := strings.Cut(rest, "?")
	return scheme + "://" + hosts[strings.LastIndexByte(hosts, '@')+1:] + "?" + query
}
