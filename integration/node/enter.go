//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// Variables that tell the program, when it runs again, in which stage it is and which
// cgroup it has.
const (
	stageVariable  = "PENSTOCK_NODE_STAGE"
	cgroupVariable = "PENSTOCK_NODE_CGROUP"
)

const (
	stageInit   = "init"
	stageInside = "inside"
)

// Enter runs this program again inside namespaces of its own, with the same arguments and
// output, and returns its exit code. The program inside has its own folder of temporary
// files, which Enter removes. In the program inside, Enter returns immediately with inside
// set. Call it first in main or TestMain, and exit with the code if inside is false.
func Enter() (code int, inside bool, err error) {
	switch os.Getenv(stageVariable) {
	case stageInside:
		return 0, true, nil
	case stageInit:
		code, err = runInit()
		return code, false, err
	}
	if err := requirements(); err != nil {
		return 1, false, err
	}
	// The mounts of the node in this folder cannot be removed before the namespaces have
	// ended.
	folder, err := os.MkdirTemp("", "node-")
	if err != nil {
		return 1, false, fmt.Errorf("make a folder for the node: %w", err)
	}
	group, err := newCgroup(fmt.Sprintf("penstock-node-%d", os.Getpid()))
	if err != nil {
		return 1, false, errors.Join(err, os.RemoveAll(folder))
	}
	missing := missingFolders()
	code, err = runOutside(group, folder)
	for _, made := range missing {
		err = errors.Join(err, os.Remove(made))
	}
	return code, false, errors.Join(err, group.remove(), os.RemoveAll(folder))
}

// runOutside starts process 1 of the namespaces, with folder as the folder of temporary
// files, and waits for its end.
func runOutside(group *cgroup, folder string) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	// The kernel ends process 1 when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stageVariable+"="+stageInit, cgroupVariable+"="+group.name, "TMPDIR="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("make namespaces for the node: %w", err)
	}
	ended := make(chan struct{})
	interrupted := make(chan struct{})
	go func() {
		defer close(interrupted)
		select {
		case <-signals:
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-interrupted
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// runInit is process 1: it prepares the namespaces, runs the program inside, and reaps all
// orphaned processes.
func runInit() (int, error) {
	if err := mountOwn(); err != nil {
		return 1, err
	}
	if err := linkUp(); err != nil {
		return 1, err
	}
	if err := os.Setenv(stageVariable, stageInside); err != nil {
		return 1, err
	}
	program, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 1, fmt.Errorf("run this program inside the node's namespaces: %w", err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for the program inside the node's namespaces: %w", err)
		case pid == program.Pid && status.Signaled():
			return 1, fmt.Errorf("the program inside the node's namespaces was ended by the signal %s", status.Signal())
		case pid == program.Pid:
			return status.ExitStatus(), nil
		}
	}
}
