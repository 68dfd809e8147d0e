package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopSignal asks a service to end cleanly, as Kubernetes does.
const stopSignal = syscall.SIGTERM

// Process is a running service.
type Process struct {
	// Name tells it from the others, in its environment and its log's name.
	Name string
	// Admin is the address of its admin port.
	Admin string
	// Log is the path of its log.
	Log string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// Spec says how to start a service.
type Spec struct {
	Name   string
	Binary string
	// Env are the service's own variables; of this process's environment it gets
	// nothing but PATH and HOME.
	Env []string
	// LogDir receives <Name>.log, appended to when the name starts again.
	LogDir string
}

// Start starts the service and returns at once; [Process.AwaitReady] waits. The
// owner ends it with Stop or Kill.
func Start(spec Spec) (*Process, error) {
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{
		Name:   spec.Name,
		Admin:  admin,
		Log:    filepath.Join(spec.LogDir, spec.Name+".log"),
		exited: make(chan struct{}),
	}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", p.Name, err)
	}
	defer out.Close()

	p.cmd = exec.Command(spec.Binary)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"PENSTOCK_ADMIN_ADDRESS=" + p.Admin,
	}, spec.Env...)
	// A sandbox that is killed itself must not leave its services behind.
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running says whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Signal sends a signal; to an ended process it does nothing.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Stop asks the process to end and awaits it as [Process.AwaitExit] does.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(stopSignal); err != nil {
		return err
	}
	return p.AwaitExit(ctx)
}

// AwaitExit waits for the end of the process. An exit status other than 0 is an
// error; where ctx ends first, the process is killed, an error too.
func (p *Process) AwaitExit(ctx context.Context) error {
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop %s: it did not end in time (log: %s): %w", p.Name, p.Log, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("stop %s (log: %s): %w", p.Name, p.Log, p.err)
	}
	return nil
}

// readyPoll is how often AwaitReady asks.
const readyPoll = 50 * time.Millisecond

// AwaitReady waits until /readyz answers 200. It fails when the process ends or
// ctx does.
func (p *Process) AwaitReady(ctx context.Context) error {
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		if p.get(ctx, "/readyz") == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-p.exited:
			return fmt.Errorf("await %s: it ended before it was ready (%w); see %s", p.Name, p.err, p.Log)
		case <-ctx.Done():
			return fmt.Errorf("await %s: not ready; see %s: %w", p.Name, p.Log, context.Cause(ctx))
		}
	}
}

func (p *Process) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	return nil
}

// The ports that services are given lie below the range from which the kernel
// takes a client's, so that none is lost between the look and the use.
const firstPort, lastPort = 21000, 31999

// freeAddress finds a loopback address that nobody listens on.
func freeAddress() (string, error) {
	for range lastPort - firstPort {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		var config net.ListenConfig
		listener, err := config.Listen(context.Background(), "tcp", address)
		if err != nil {
			continue
		}
		return address, listener.Close()
	}
	return "", fmt.Errorf("find a free port: all of %d to %d are taken", firstPort, lastPort)
}
