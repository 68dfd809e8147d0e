package virtual

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/cli"
	projector "github.com/penstock-cdc/penstock/projector/app"
	publisher "github.com/penstock-cdc/penstock/publisher/app"
)

// Kind is one of the two services.
type Kind string

// The services.
const (
	Publisher Kind = "publisher"
	Projector Kind = "projector"
)

// The names of the servers in a network.
const (
	MongoDB = "mongodb:27017"
	// Stores is a second MongoDB, which has everything but the events.
	Stores     = "stores:27017"
	ServiceBus = "servicebus:5672"
	Kubernetes = "kubernetes:80"
)

// Servers are all servers to which a process has a link.
var Servers = []string{MongoDB, Stores, ServiceBus, Kubernetes}

// Spec says how a process runs.
type Spec struct {
	Kind Kind
	// Name is that of the host, different for each process that a network has had.
	Name string
	// Args are the command and its flags; none run the service.
	Args []string
	// Env are the variables, as NAME=value; the last one with a name counts.
	Env            []string
	Stdout, Stderr io.Writer
}

// Process is a running service or command.
type Process struct {
	// Name is the Spec's.
	Name   string
	host   *Host
	cancel context.CancelFunc
	exited chan struct{}
	status int
	// registry has the metrics of the service, without those of the Go runtime and of the
	// operating system's process, which are the whole bubble's.
	registry *prometheus.Registry
	// admin and queries are nil if it runs a command.
	admin, queries net.Listener
}

// Start starts a process.
func Start(n *Network, spec Spec) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{Name: spec.Name, host: n.NewHost(spec.Name), cancel: cancel, exited: make(chan struct{}), registry: prometheus.NewRegistry()}
	if len(spec.Args) == 0 {
		p.admin, p.queries = n.Listen(p.Admin()), n.Listen(p.Queries())
	}
	go func() {
		defer close(p.exited)
		defer cancel()
		p.status = p.run(ctx, spec)
		// As the kernel closes what a process has left open.
		p.disconnect(true)
	}()
	return p
}

// run is the main function.
func (p *Process) run(ctx context.Context, spec Spec) int {
	mongoDB, serviceBus, kubernetes := p.host.Dialer(MongoDB), p.host.Dialer(ServiceBus).Dial, p.host.Dialer(Kubernetes).DialContext
	return cli.Run(ctx, string(spec.Kind), spec.Env, spec.Stderr, func(environ func(string) (string, bool)) (cli.Program, error) {
		if spec.Kind == Publisher {
			return publisher.Parse(spec.Args, environ, spec.Stdout, spec.Stderr, func(o *publisher.Options) {
				o.Config.MongoDB.Dialer, o.Config.ServiceBus.Dial, o.Config.Election.Dial = mongoDB, serviceBus, kubernetes
				o.Registry, o.Listener = p.registry, p.admin
			})
		}
		return projector.Parse(spec.Args, environ, spec.Stdout, spec.Stderr, func(o *projector.Options) {
			o.Config.MongoDB.Dialer, o.Config.ServiceBus.Dial = mongoDB, serviceBus
			o.Registry, o.Listener = p.registry, p.admin
			if o.Config.Process.QueryAddress != "" {
				o.QueryListener = p.queries
			}
		})
	})
}

// disconnect ends all connections.
func (p *Process) disconnect(tail bool) {
	p.host.Crash(tail)
	if p.admin != nil {
		_ = p.admin.Close()
		_ = p.queries.Close()
	}
}

// Admin is the address of the admin port.
func (p *Process) Admin() string { return p.Name + ":8080" }

// Queries is the address of GET /applied of a projector.
func (p *Process) Queries() string { return p.Name + ":8081" }

// Host is where the process runs: its links.
func (p *Process) Host() *Host { return p.host }

// Registry has the metrics of the service.
func (p *Process) Registry() *prometheus.Registry { return p.registry }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status is the exit status. It waits for [Process.Exited].
func (p *Process) Status() int {
	<-p.exited
	return p.status
}

// Terminate stops the process as SIGTERM does, and does not wait.
func (p *Process) Terminate() { p.cancel() }

// Crash ends the process as SIGKILL does: none of its later requests reaches a server. tail
// says whether the servers still get what is on its way. Its goroutines end soon after.
func (p *Process) Crash(tail bool) {
	p.disconnect(tail)
	p.cancel()
}

// Client is for requests from a host to servers of the network, such as a process's admin
// port, by their addresses in the network. Each request has a connection of its own.
func (h *Host) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return h.Dialer(address).Dial(ctx)
		},
	}}
}
