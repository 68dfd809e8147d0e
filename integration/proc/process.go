package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// stopSignal asks a program to end cleanly, as Kubernetes does.
const stopSignal = syscall.SIGTERM

// Spec says how to start a program.
type Spec struct {
	// Name appears in errors and in the name of the log.
	Name   string
	Binary string
	Args   []string
	// Env are the program's own variables. From this process's environment it also gets
	// PATH and HOME.
	Env []string
	// LogDir gets <Name>.log. A program that starts again with the name appends to it.
	LogDir string
}

// Process is a running program.
type Process struct {
	// Name is the Spec's.
	Name string
	// Log is the path of its log.
	Log string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// Start starts the program and does not wait. The owner ends it with Stop or Kill.
func Start(spec Spec) (*Process, error) {
	p := &Process{
		Name:   spec.Name,
		Log:    filepath.Join(spec.LogDir, spec.Name+".log"),
		exited: make(chan struct{}),
	}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", p.Name, err)
	}
	defer out.Close()

	p.cmd = exec.Command(spec.Binary, spec.Args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, spec.Env...)
	p.cmd.SysProcAttr = ownGroup()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Tail returns the last lines of a log, or why it cannot be read.
func Tail(log string, lines int) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns how the process ended, nil for the exit status 0. It waits for
// [Process.Exited].
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// Running reports whether the process has not ended.
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

// AwaitExit waits for the end of the process. An exit status other than 0 is an error. If
// ctx ends first, AwaitExit kills the process and returns an error.
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
