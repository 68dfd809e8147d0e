package event

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Bounds of what an interner keeps: a store that puts unbounded values where a
// type belongs costs an allocation an event, and no memory.
const (
	internMostStrings = 512
	internMostBytes   = 128
)

// interner gives equal byte strings the same string, without an allocation once
// it has seen them. Readers never lock. The zero value is ready.
type interner struct {
	known atomic.Pointer[map[string]string]
	mu    sync.Mutex
}

func (n *interner) intern(b []byte) string {
	known := n.known.Load()
	if known != nil {
		if s, ok := (*known)[string(b)]; ok {
			return s
		}
		if len(*known) >= internMostStrings {
			return string(b)
		}
	}
	s := string(b)
	if len(b) <= internMostBytes {
		n.learn(s)
	}
	return s
}

func (n *interner) learn(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[string]string{s: s}
	if known := n.known.Load(); known != nil {
		if len(*known) >= internMostStrings {
			return
		}
		next = maps.Clone(*known)
		next[s] = s
	}
	n.known.Store(&next)
}
