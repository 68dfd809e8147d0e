//go:build unix

package journal

import (
	"os"
	"syscall"
)

// exclusive takes a file for this process alone; the lock ends with the file or
// the process.
func exclusive(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
