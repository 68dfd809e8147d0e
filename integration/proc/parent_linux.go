package proc

import "syscall"

// ownGroup puts the child into a process group of its own. So Ctrl-C in a terminal reaches
// only its parent, which then stops it. The kernel kills the child whenever its parent
// ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
