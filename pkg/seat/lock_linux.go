package seat

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock locks a file until it is closed, and returns which file of this host it is.
func lock(file *os.File) (inode string, err error) {
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return "", ErrTaken
	case err != nil:
		return "", err
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &stat); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino), nil
}
