//go:build !unix

package journal

import "os"

// exclusive does nothing, because there is no flock. The user must not start two
// processes on one directory.
func exclusive(*os.File) error { return nil }
