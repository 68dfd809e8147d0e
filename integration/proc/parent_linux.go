package proc

import "syscall"

// dieWithParent has the kernel end a child when its parent ends in whatever way.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
