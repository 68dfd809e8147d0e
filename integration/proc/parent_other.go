//go:build !linux

package proc

import "syscall"

// dieWithParent does nothing here: only Linux ends a child with its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
