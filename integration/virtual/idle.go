//go:build simulation

package virtual

import _ "unsafe" // for go:linkname

// A goroutine that waits for a mutex keeps the time of its bubble from advancing, because
// the holder may be outside of the bubble. SDKs hold mutexes while they wait for the network,
// so a link that is held would stop the time for ever. Here every holder is in the bubble:
// such a wait counts as idle. The linker allows this with -ldflags=-checklinkname=0 only.
//
//go:linkname idleInSynctest runtime.isIdleInSynctest
var idleInSynctest [lastMutexReason + 1]bool

//go:linkname waitReasons runtime.waitReasonStrings
var waitReasons [lastMutexReason + 1]string

// The wait reasons of mutexes in runtime/runtime2.go of Go 1.26.
const (
	firstMutexReason = 22
	lastMutexReason  = 24
)

// AdvanceWithMutexes makes waiting for a mutex count as idle.
func AdvanceWithMutexes() bool {
	names := [...]string{"sync.Mutex.Lock", "sync.RWMutex.RLock", "sync.RWMutex.Lock"}
	for i, name := range names {
		if waitReasons[firstMutexReason+i] != name {
			return false
		}
	}
	for i := range names {
		idleInSynctest[firstMutexReason+i] = true
	}
	return true
}
