//go:build !simulation

package simulation

// advanceWithMutexes needs the build tag simulation, and -ldflags=-checklinkname=0.
func advanceWithMutexes() bool { return false }
