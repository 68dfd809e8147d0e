//go:build !linux

package harness

import "syscall"

// dieWithParent does nothing here: only Linux ends a child with its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
