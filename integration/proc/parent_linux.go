package proc

import "syscall"

// ownGroup puts the child into a process group of its own, so that Ctrl-C in a terminal
// reaches its parent only, which then stops it. The kernel kills the child when its parent
// ends in whatever way.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
