package controlplane

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Proxy connects one client with a server, and can interrupt the connection. It passes
// bytes on without reading them.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup
	// ctx ends with Close.
	ctx   context.Context //nolint:containedctx // the proxy's own life, which Close ends
	close context.CancelFunc

	mu sync.Mutex
	// passing is closed while bytes may pass.
	passing chan struct{}
	isCut   bool
	refuses bool
	open    map[net.Conn]struct{}
}

// NewProxy listens on a loopback port and passes bytes to target, a host and port. The
// caller closes the proxy.
func NewProxy(target string) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as a proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		target: target, listener: listener, ctx: ctx, close: cancel,
		passing: make(chan struct{}), open: make(map[net.Conn]struct{}),
	}
	close(p.passing)
	p.running.Go(p.accept)
	return p, nil
}

// Address returns the host and port of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Cut stops all bytes in both directions, as if a cable was unplugged. The connections get
// no error, and bytes on their way wait for [Proxy.Heal].
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isCut {
		p.isCut = true
		p.passing = make(chan struct{})
	}
}

// Refuse breaks every connection, and each new one immediately, until [Proxy.Heal].
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
	for conn := range p.open {
		_ = conn.Close()
	}
}

// Heal ends [Proxy.Cut] and [Proxy.Refuse].
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = false
	if p.isCut {
		p.isCut = false
		close(p.passing)
	}
}

// Close breaks every connection and stops the proxy.
func (p *Proxy) Close() error {
	p.close()
	err := p.listener.Close()
	p.mu.Lock()
	for conn := range p.open {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.hold(conn) {
			p.running.Go(func() { p.serve(conn) })
		}
	}
}

// hold records a connection, or closes it if the proxy refuses connections.
func (p *Proxy) hold(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses || p.ctx.Err() != nil {
		_ = conn.Close()
		return false
	}
	p.open[conn] = struct{}{}
	return true
}

func (p *Proxy) release(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
	_ = conn.Close()
}

// serve connects a client with the target until one of them ends.
func (p *Proxy) serve(client net.Conn) {
	defer p.release(client)
	if !p.await() {
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(p.ctx, "tcp", p.target)
	if err != nil || !p.hold(server) {
		return
	}
	defer p.release(server)
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		p.running.Go(func() {
			p.pass(way[0], way[1])
			done <- struct{}{}
		})
	}
	<-done
}

// pass copies from one connection to the other while bytes may pass.
func (p *Proxy) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.await() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await waits until bytes may pass, and reports whether the proxy is still open.
func (p *Proxy) await() bool {
	p.mu.Lock()
	passing := p.passing
	p.mu.Unlock()
	select {
	case <-passing:
		return true
	case <-p.ctx.Done():
		return false
	}
}
