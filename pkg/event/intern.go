package event

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Bounds of what an interner keeps. If a store has unbounded values in a type field, each
// such event costs an allocation, but memory stays bounded.
const (
	internMostStrings = 512
	internMostBytes   = 128
)

// interner gives equal byte strings the same string. A string that it knows costs no
// allocation. Readers never lock. The zero value is ready.
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
