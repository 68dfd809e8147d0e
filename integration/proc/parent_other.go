//go:build unix && !linux

package proc

import "syscall"

// ownGroup puts the child into a process group of its own. So Ctrl-C in a terminal reaches
// only its parent, which then stops it. Only Linux can also kill a child when its parent
// ends.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
