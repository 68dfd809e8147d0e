package virtual

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Network connects the hosts of a world with its servers. Each write is a segment that
// reaches the other end after the link's latency, in order. Segments of different
// connections never arrive at the same virtual instant, so what a process does with one is
// over before the next arrives.
type Network struct {
	mu sync.Mutex
	// seed makes the sources from which each host draws its latencies.
	seed    uint64
	servers map[string]*listener
}

// NewNetwork makes a network without hosts and servers.
func NewNetwork(seed uint64) *Network {
	return &Network{seed: seed, servers: make(map[string]*listener)}
}

// address is that of a server.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// listener is where a server accepts the connections of all hosts.
type listener struct {
	address address
	accept  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Listen returns the listener of a server, under a name like "mongodb:27017". A name can be
// listened on again after its listener was closed.
func (n *Network) Listen(name string) net.Listener {
	l := &listener{address: address(name), accept: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[name] = l
	return l
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return l.address }

// Host is where one process runs. Its links to the servers can be cut and held.
type Host struct {
	network *Network
	name    string

	mu     sync.Mutex
	random *rand.Rand
	links  map[string]*link
	dead   bool
}

// NewHost makes a host. Hosts with the same seed and name have the same latencies.
func (n *Network) NewHost(name string) *Host {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return &Host{network: n, name: name, links: make(map[string]*link), random: rand.New(rand.NewPCG(n.seed, hash.Sum64()))}
}

// Direction is one of the two ways of a link.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// link is what all connections of a host to one server share.
type link struct {
	host *Host
	mu   sync.Mutex
	// cut refuses new connections.
	cut bool
	// held says which directions keep their segments.
	held [2]bool
	// latency is the longest delay of a segment.
	latency time.Duration
	conns   []*pair
	// changed is closed and replaced when cut or held change.
	changed chan struct{}
}

// defaultLatency is the longest delay of a segment on a link without a fault.
const defaultLatency = 400 * time.Microsecond

func (h *Host) link(server string) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.links[server]
	if l == nil {
		l = &link{host: h, cut: h.dead, latency: defaultLatency, changed: make(chan struct{})}
		h.links[server] = l
	}
	return l
}

// delay draws the delay of a segment, with nanoseconds, so that no two arrive together.
func (l *link) delay() time.Duration {
	l.mu.Lock()
	latency := l.latency
	l.mu.Unlock()
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	return latency/4 + time.Duration(l.host.random.Int64N(int64(latency)))
}

// Dialer returns the dialer of the host's connections to a server.
func (h *Host) Dialer(server string) Dialer { return Dialer{host: h, server: server} }

// Dialer opens connections to one server.
type Dialer struct {
	host   *Host
	server string
}

// DialContext opens a connection to the server that has the address, and otherwise to the
// dialer's. It implements the dialer of the MongoDB driver.
func (d Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	if slices.Contains(Servers, address) {
		d.server = address
	}
	return d.Dial(ctx)
}

// Dial opens a connection. While the link is held it waits; while it is cut or no server
// listens it fails.
func (d Dialer) Dial(ctx context.Context) (net.Conn, error) {
	l := d.host.link(d.server)
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: address(d.server), Err: syscall.ECONNREFUSED}
	for {
		select {
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(d.server), Err: context.Cause(ctx)}
		case <-time.After(2 * l.delay()):
		}
		l.mu.Lock()
		cut, held, changed := l.cut, l.held[ToServer] || l.held[ToClient], l.changed
		l.mu.Unlock()
		if cut {
			return nil, refused
		}
		if !held {
			break
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	d.host.network.mu.Lock()
	server := d.host.network.servers[d.server]
	d.host.network.mu.Unlock()
	if server == nil {
		return nil, refused
	}
	p := newPair(l, server.address)
	l.mu.Lock()
	l.conns = append(l.conns, p)
	l.mu.Unlock()
	select {
	case server.accept <- p.server:
		return p.client, nil
	case <-server.closed:
		l.forget(p)
		return nil, refused
	case <-ctx.Done():
		l.forget(p)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(d.server), Err: context.Cause(ctx)}
	}
}

func (l *link) forget(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(other *pair) bool { return other == p })
}

// change changes a link, and wakes those that wait for a change.
func (l *link) change(do func()) []*pair {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
	close(l.changed)
	l.changed = make(chan struct{})
	return slices.Clone(l.conns)
}

// Cut breaks all connections of the host to a server. Segments on their way are lost, but
// those to the server arrive if tail is true: the server executes a request whose client is
// gone. New connections are refused until [Host.Heal].
func (h *Host) Cut(server string, tail bool) {
	l := h.link(server)
	for _, p := range l.change(func() { l.cut = true }) {
		p.reset(tail)
	}
}

// Drop breaks all connections of the host to a server, like Cut, but new ones succeed.
func (h *Host) Drop(server string, tail bool) {
	l := h.link(server)
	for _, p := range l.change(func() {}) {
		p.reset(tail)
	}
}

// Hold keeps the segments of a direction or both from arriving until [Host.Heal]. No
// connection breaks.
func (h *Host) Hold(server string, directions ...Direction) {
	l := h.link(server)
	l.change(func() {
		for _, d := range directions {
			l.held[d] = true
		}
	})
}

// Slow sets the longest delay of a segment.
func (h *Host) Slow(server string, latency time.Duration) {
	l := h.link(server)
	l.change(func() { l.latency = latency })
}

// Heal ends Cut, Hold and Slow. Held segments arrive in order.
func (h *Host) Heal(server string) {
	l := h.link(server)
	h.mu.Lock()
	dead := h.dead
	h.mu.Unlock()
	for _, p := range l.change(func() { l.cut, l.held, l.latency = dead, [2]bool{}, defaultLatency }) {
		p.client.out.release()
		p.server.out.release()
	}
}

// Crash breaks every connection of the host for ever. tail says whether the servers still
// get what is on its way.
func (h *Host) Crash(tail bool) {
	h.mu.Lock()
	h.dead = true
	names := make([]string, 0, len(h.links))
	for name := range h.links {
		names = append(names, name)
	}
	h.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		h.Cut(name, tail)
	}
}

// pair has both ends of a connection.
type pair struct {
	link           *link
	client, server *conn
	open           atomic.Int32 // how many ends are not closed
}

func newPair(l *link, server address) *pair {
	p := &pair{link: l}
	p.open.Store(2)
	up, down := &pipe{link: l, direction: ToServer}, &pipe{link: l, direction: ToClient}
	up.changed, down.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	host := address(l.host.name)
	p.client = &conn{pair: p, out: up, in: down, local: host, remote: server}
	p.server = &conn{pair: p, out: down, in: up, local: server, remote: host}
	return p
}

// reset breaks the connection at both ends.
func (p *pair) reset(tail bool) {
	p.link.forget(p)
	p.client.out.reset(tail)
	p.server.out.reset(false)
	// The client's own reads and writes fail at once, whatever the server still gets.
	p.client.broken(syscall.ECONNRESET)
	if !tail {
		p.server.broken(syscall.ECONNRESET)
	}
}

// pipe is one direction of a connection. Only one goroutine at a time reads it.
type pipe struct {
	link      *link
	direction Direction

	mu sync.Mutex
	// travelling are the segments that were written and have not arrived, in order.
	travelling []segment
	// last is when the newest segment arrives, if nothing holds it.
	last time.Time
	// arrived are the segments that have arrived and are not read yet, and taken is how much of the
	// first one was read. spare is the buffer of a segment that was read, for another one.
	arrived [][]byte
	taken   int
	spare   []byte
	// ended is set when a segment with an end has arrived, or the connection is broken.
	ended   error
	closed  bool          // no more segments are taken
	lost    bool          // segments that are on their way are lost
	changed chan struct{} // tells the reader of a change
}

// segment is what one Write has written. end, if set, is how the direction ends.
type segment struct {
	data []byte
	end  error
}

// wake tells the reader of a change.
func (p *pipe) wake() {
	select {
	case p.changed <- struct{}{}:
	default: // it has not seen the last one yet
	}
}

// send puts a copy of a segment on its way.
func (p *pipe) send(s segment) bool {
	wait := p.link.delay()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.closed = s.end != nil
	s.data, p.spare = append(p.spare[:0], s.data...), nil
	p.travelling = append(p.travelling, s)
	// Segments arrive in order.
	at := time.Now().Add(wait)
	if !at.After(p.last) {
		at = p.last.Add(time.Nanosecond)
	}
	p.last = at
	time.AfterFunc(time.Until(at), p.arrive)
	return true
}

// arrive delivers the oldest segment, unless its direction is held.
func (p *pipe) arrive() {
	p.link.mu.Lock()
	held := p.link.held[p.direction]
	p.link.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if held || len(p.travelling) == 0 || p.lost {
		return
	}
	s := p.travelling[0]
	p.travelling = p.travelling[1:]
	if len(s.data) > 0 {
		p.arrived = append(p.arrived, s.data)
	}
	if s.end != nil && p.ended == nil {
		p.ended = s.end
	}
	p.wake()
}

// read takes bytes that have arrived, and returns how the direction has ended.
func (p *pipe) read(b []byte) (n int, ended error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(b) && len(p.arrived) > 0 {
		some := copy(b[n:], p.arrived[0][p.taken:])
		n, p.taken = n+some, p.taken+some
		if p.taken == len(p.arrived[0]) {
			p.spare, p.arrived, p.taken = p.arrived[0], p.arrived[1:], 0
		}
	}
	return n, p.ended
}

// release delivers the segments that a hold has kept.
func (p *pipe) release() {
	p.mu.Lock()
	waiting := len(p.travelling)
	p.mu.Unlock()
	for i := range waiting {
		time.AfterFunc(p.link.delay()+time.Duration(i), p.arrive)
	}
}

// reset loses the segments on their way, or with tail adds an end behind them.
func (p *pipe) reset(tail bool) {
	if tail {
		p.send(segment{end: syscall.ECONNRESET})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.lost = true, true
}

// conn is one end of a connection.
type conn struct {
	pair          *pair
	out, in       *pipe
	local, remote address

	mu     sync.Mutex
	closed bool
	err    error // of a broken connection
	read   deadline
	write  deadline
}

var _ net.Conn = (*conn)(nil)

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	for {
		expired := c.read.wait()
		n, ended := c.in.read(b)
		if err := c.failure(); err != nil {
			return 0, c.fail("read", err)
		}
		if n > 0 || len(b) == 0 {
			return n, nil
		}
		if ended != nil {
			if errors.Is(ended, io.EOF) {
				return 0, io.EOF
			}
			return 0, c.fail("read", ended)
		}
		select {
		case <-expired:
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		default:
		}
		select {
		case <-c.in.changed:
		case <-expired:
		}
	}
}

// Write implements [net.Conn]. It never blocks.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.failure(); err != nil {
		return 0, c.fail("write", err)
	}
	select {
	case <-c.write.wait():
		return 0, c.fail("write", os.ErrDeadlineExceeded)
	default:
	}
	if !c.out.send(segment{data: b}) {
		return 0, c.fail("write", syscall.EPIPE)
	}
	return len(b), nil
}

// Close implements [net.Conn]. The other end reads what is on its way, and then the end.
func (c *conn) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	c.out.send(segment{end: io.EOF})
	c.in.wake()
	if c.pair.open.Add(-1) == 0 {
		c.pair.link.forget(c.pair)
	}
	return nil
}

// broken makes every call of this end fail.
func (c *conn) broken(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.in.wake()
}

func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.err
}

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// deadline is one deadline of a connection, as in [net.Pipe].
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // its function runs or has run
	}
	d.timer = nil
	gone := false
	if d.expired != nil {
		select {
		case <-d.expired:
			gone = true
		default:
		}
	}
	if d.expired == nil || gone {
		d.expired = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		expired := d.expired
		d.timer = time.AfterFunc(left, func() { close(expired) })
		return
	}
	close(d.expired)
}

// wait returns a channel that is closed when the deadline passes.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expired == nil {
		d.expired = make(chan struct{})
	}
	return d.expired
}
