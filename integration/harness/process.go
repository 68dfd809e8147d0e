package harness

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// stopSignal makes a service stop cleanly. Kubernetes sends the same signal.
const stopSignal = syscall.SIGTERM

// Process is a running service.
type Process struct {
	*proc.Process
	// Admin is the address of the process's admin server.
	Admin string
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
	return &Process{Process: started, Admin: admin}, nil
}

// readyPoll is how often AwaitReady requests /readyz.
const readyPoll = 50 * time.Millisecond

// AwaitReady waits until /readyz returns 200. It returns an error if the process or ctx
// ends first.
func (p *Process) AwaitReady(ctx context.Context) error {
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		if p.get(ctx, "/readyz") == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-p.Exited():
			return fmt.Errorf("await %s: it ended before it was ready (%w); see %s", p.Name, p.Err(), p.Log)
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
