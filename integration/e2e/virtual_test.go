package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// virtualTime says that scenarios without a need for real processes run in virtual time.
// The build decides (make test).
var virtualTime = virtual.AdvanceWithMutexes()

// bubbles are the tests that run in virtual time.
var bubbles sync.Map

// scene runs a scenario that needs no real processes: in virtual time if the backend are the
// stand-ins and the build allows it, as processes otherwise.
func scene(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	scenesInParallel(t)
	if !inVirtualTime() {
		run(t)
		return
	}
	virtual.Run(t, t.Name, func(t *testing.T) {
		t.Helper()
		bubbles.Store(t, struct{}{})
		defer bubbles.Delete(t)
		run(t)
	})
}

func inVirtualTime() bool { return virtualTime && suite.kind == harness.KindEmbedded }

// scenesInParallel is like inParallel for a scene, or for a test with scenes. In virtual time one
// scene runs at a time: while its goroutines wait for a mutex of an SDK that another test holds,
// its time would advance.
func scenesInParallel(t *testing.T) {
	t.Helper()
	if !inVirtualTime() {
		inParallel(t)
	}
}

// runScene runs a scenario as a subtest.
func runScene(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { scene(t, run) })
}

// isVirtual reports whether the test runs in virtual time.
func isVirtual(t *testing.T) bool {
	t.Helper()
	_, ok := bubbles.Load(t)
	return ok
}

// virtualBackend are the stand-ins in a network in memory, with the services that run there.
type virtualBackend struct {
	*harness.Embedded
	network *virtual.Network
	started atomic.Int64
}

var _ harness.Programs = (*virtualBackend)(nil)

func openVirtual(o harness.EmbeddedOptions) (*virtualBackend, error) {
	network := virtual.NewNetwork(1)
	o.MongoListener, o.BrokerListener = network.Listen(virtual.MongoDB), network.Listen(virtual.ServiceBus)
	embedded, err := harness.StartEmbedded(o)
	if err != nil {
		return nil, err
	}
	return &virtualBackend{Embedded: embedded, network: network}, nil
}

// dialer connects the test itself with a server.
func (b *virtualBackend) dialer(server string) virtual.Dialer {
	return b.network.NewHost("test").Dialer(server)
}

// host names a process that starts: no two processes of a network have the same name.
func (b *virtualBackend) host(name string) string {
	return fmt.Sprintf("%s-%d", name, b.started.Add(1))
}

// Start implements [harness.Programs].
func (b *virtualBackend) Start(service harness.Service, name string, env []string, dir string) (*harness.Process, error) {
	path := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := virtual.Start(b.network, virtual.Spec{Kind: virtual.Kind(service), Name: b.host(name), Env: env, Stdout: log, Stderr: log})
	go func() {
		<-p.Exited()
		_ = log.Close()
	}()
	return &harness.Process{
		Program: &virtualProgram{Process: p}, Name: name, Log: path, Admin: p.Admin(), Client: b.network.NewHost("test").Client(),
	}, nil
}

// Run implements [harness.Programs].
func (b *virtualBackend) Run(ctx context.Context, service harness.Service, env, args []string) (harness.Output, error) {
	var stdout, stderr bytes.Buffer
	p := virtual.Start(b.network, virtual.Spec{Kind: virtual.Kind(service), Name: b.host("command"), Args: args, Env: env, Stdout: &stdout, Stderr: &stderr})
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Crash(true)
		<-p.Exited()
		return harness.Output{}, fmt.Errorf("run %s %v: %w", service, args, context.Cause(ctx))
	}
	return harness.Output{Status: p.Status(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}

// virtualProgram is a process of the network as the scenarios know one.
type virtualProgram struct {
	*virtual.Process
	killed atomic.Bool
}

// Err implements [harness.Program]. A killed process has no error.
func (p *virtualProgram) Err() error {
	if status := p.Status(); status != 0 && !p.killed.Load() {
		return statusError(status)
	}
	return nil
}

// statusError is how a process in virtual time has ended.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Running implements [harness.Program].
func (p *virtualProgram) Running() bool {
	select {
	case <-p.Exited():
		return false
	default:
		return true
	}
}

// Kill implements [harness.Program].
func (p *virtualProgram) Kill() {
	p.killed.Store(true)
	p.Crash(true)
	<-p.Exited()
}

// errNoSignal says that a process in virtual time does not know a signal.
var errNoSignal = errors.New("a process in virtual time takes SIGTERM only: run the scenario as processes")

// Signal implements [harness.Program].
func (p *virtualProgram) Signal(signal syscall.Signal) error {
	if signal != syscall.SIGTERM {
		return errNoSignal
	}
	p.Terminate()
	return nil
}

// Stop implements [harness.Program].
func (p *virtualProgram) Stop(ctx context.Context) error {
	p.Terminate()
	return p.AwaitExit(ctx)
}

// AwaitExit implements [harness.Program].
func (p *virtualProgram) AwaitExit(ctx context.Context) error {
	select {
	case <-p.Exited():
		return p.Err()
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop %s: it did not end in time: %w", p.Name, context.Cause(ctx))
	}
}
