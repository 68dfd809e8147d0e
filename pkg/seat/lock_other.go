//go:build !linux

package seat

import (
	"errors"
	"os"
)

// lock refuses: only Linux has the boot id without which a seat proves nothing.
func lock(*os.File) (string, error) { return "", errors.ErrUnsupported }
