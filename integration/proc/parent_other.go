//go:build unix && !linux

package proc

import "syscall"

// ownGroup puts the child into a process group of its own, so that Ctrl-C in a terminal
// reaches its parent only, which then stops it. Only Linux can also kill a child with its
// parent.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
