package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// stopSignal makes a service stop cleanly. Kubernetes sends the same signal.
const stopSignal = syscall.SIGTERM

// Program is a running program.
type Program interface {
	// Exited is closed when it has ended.
	Exited() <-chan struct{}
	// Err returns how it ended, nil for the exit status 0. It waits for Exited.
	Err() error
	// Running reports whether it has not ended.
	Running() bool
	// Kill ends it with SIGKILL, and waits for its end.
	Kill()
	// Signal sends a signal; after its end it does nothing.
	Signal(signal syscall.Signal) error
	// Stop sends SIGTERM and awaits the end as AwaitExit does.
	Stop(ctx context.Context) error
	// AwaitExit waits for the end. An exit status other than 0 is an error. If ctx ends
	// first, AwaitExit kills the program and returns an error.
	AwaitExit(ctx context.Context) error
}

// Process is a running service.
type Process struct {
	Program
	// Name is that of the pipeline's process, and Log the path of its log.
	Name, Log string
	// Admin is the address of the process's admin server, and Client makes requests to it.
	Admin  string
	Client *http.Client
	// OS is the process of the operating system; nil if there is none.
	OS *proc.Process
}

// Start starts the service with an admin port of its own, and does not wait until it is
// ready; use [Process.AwaitReady]. The owner ends the process with Stop or Kill.
func Start(spec proc.Spec) (*Process, error) {
	admin, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	spec.Env = append([]string{"PENSTOCK_ADMIN_ADDRESS=" + admin}, spec.Env...)
	started, err := proc.Start(spec)
	if err != nil {
		return nil, err
	}
	return &Process{Program: started, Name: started.Name, Log: started.Log, Admin: admin, Client: http.DefaultClient, OS: started}, nil
}

// readyPoll is how often AwaitReady requests /readyz.
const readyPoll = 50 * time.Millisecond

// AwaitReady waits until /readyz returns 200. It returns an error if the process or ctx
// ends first.
func (p *Process) AwaitReady(ctx context.Context) error {
	return proc.Await(ctx, readyPoll, p.Name+", which is not ready; see "+p.Log, func() (bool, error) {
		if !p.Running() {
			return false, fmt.Errorf("await %s: it ended before it was ready (%w); see %s", p.Name, p.Err(), p.Log)
		}
		status, _, err := p.Get(ctx, "/readyz", nil)
		return err == nil && status == http.StatusOK, nil
	})
}

// Get requests a path of the admin port. An error means that the process did not answer.
func (p *Process) Get(ctx context.Context, path string, header http.Header) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, nil)
	if err != nil {
		return 0, nil, err
	}
	request.Header = header
	response, err := p.Client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
