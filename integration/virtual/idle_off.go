//go:build !simulation

package virtual

// AdvanceWithMutexes needs the build tag simulation, and -ldflags=-checklinkname=0.
func AdvanceWithMutexes() bool { return false }
