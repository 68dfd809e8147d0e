package oplog

import (
	"context"
	"errors"
	"sort"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// ErrLost says that the log no longer contains the requested position.
var ErrLost = errors.New("read the oplog: the position is no longer in it")

// Limits bound a log; 0 means unlimited.
type Limits struct {
	Entries int
	Bytes   int64
}

// Log is a log of entries. A position is the number of entries ever appended before it,
// so it starts at 0. Only one goroutine at a time may call Append. All other methods are
// safe for concurrent use.
type Log struct {
	mu      sync.RWMutex
	limits  Limits
	entries []*Entry
	head    int    // index of the oldest entry in entries
	first   uint64 // position of the oldest entry
	bytes   int64
	wake    chan struct{}
	waiting int
	// held says that the entries from the position committed on are on the primary only, and
	// holds counts how often that has been so.
	held      bool
	holds     int
	committed uint64
}

// New returns an empty log.
func New(limits Limits) *Log {
	return &Log{limits: limits, wake: make(chan struct{})}
}

// Append adds entries, drops the oldest ones while the log exceeds its limits, and wakes
// waiting readers. Entries with the same cluster time belong to one transaction and are
// dropped together, because the server stores them in one entry. Append never drops the
// newest cluster time.
func (l *Log) Append(entries ...*Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.bytes += e.size()
	}
	l.entries = append(l.entries, entries...)
	for l.over() && l.drop() {
	}
	l.compact()
	l.notify()
}

func (l *Log) notify() {
	if l.waiting > 0 {
		l.waiting = 0
		close(l.wake)
		l.wake = make(chan struct{})
	}
}

// Hold hides the entries that are appended from now on from Read and Wait, as change streams
// do not see entries that a majority does not have yet.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.committed = true, l.end()
	l.holds++
}

// Held returns the number of the Hold that lasts; 0 if none does.
func (l *Log) Held() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.held {
		return 0
	}
	return l.holds
}

// Release shows the hidden entries.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.notify()
}

// Discard removes the hidden entries, and hides no more.
func (l *Log) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		return
	}
	keep := l.head + int(l.committed-l.first)
	for _, e := range l.entries[keep:] {
		l.bytes -= e.size()
	}
	clear(l.entries[keep:])
	l.entries, l.held = l.entries[:keep], false
}

// visible returns the position after the newest entry that readers see.
func (l *Log) visible() uint64 {
	if l.held {
		return l.committed
	}
	return l.end()
}

func (l *Log) over() bool {
	n := len(l.entries) - l.head
	return l.limits.Entries > 0 && n > l.limits.Entries || l.limits.Bytes > 0 && l.bytes > l.limits.Bytes
}

// drop drops the entries with the oldest cluster time, unless there are no newer entries.
// It reports whether it dropped any.
func (l *Log) drop() bool {
	live := l.entries[l.head:]
	n := 0
	for n < len(live) && live[n].TS == live[0].TS {
		n++
	}
	if n == len(live) || l.held && l.first+uint64(n) >= l.committed {
		return false
	}
	for i, e := range live[:n] {
		l.bytes -= e.size()
		live[i] = nil
	}
	l.head += n
	l.first += uint64(n)
	return true
}

func (l *Log) compact() {
	if l.head < 1024 || l.head < len(l.entries)/2 {
		return
	}
	n := copy(l.entries, l.entries[l.head:])
	clear(l.entries[n:])
	l.entries = l.entries[:n]
	l.head = 0
}

// Truncate drops old entries until at most keep remain. It never drops entries with the
// newest cluster time.
func (l *Log) Truncate(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.entries)-l.head > keep && l.drop() {
	}
	l.compact()
}

// End returns the position after the newest entry.
func (l *Log) End() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.end()
}

func (l *Log) end() uint64 { return l.first + uint64(len(l.entries)-l.head) }

// Newest returns the cluster time of the newest entry, or the zero timestamp.
func (l *Log) Newest() bson.Timestamp {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.entries) == l.head {
		return bson.Timestamp{}
	}
	return l.entries[len(l.entries)-1].TS
}

// NewestVisible returns the cluster time of the newest entry that readers see, or the zero
// timestamp.
func (l *Log) NewestVisible() bson.Timestamp {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.visible() == l.first {
		return bson.Timestamp{}
	}
	return l.entries[l.head+int(l.visible()-l.first)-1].TS
}

// Read copies up to len(into) entries, starting at a position, and returns their number.
// It returns [ErrLost] if the entry at the position has been dropped.
func (l *Log) Read(position uint64, into []*Entry) (int, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if position < l.first {
		return 0, ErrLost
	}
	if position >= l.visible() {
		return 0, nil
	}
	return copy(into, l.entries[l.head+int(position-l.first):l.head+int(l.visible()-l.first)]), nil
}

// Seek returns the position of the first entry at or after a cluster time. It returns
// [ErrLost] if such an entry may have been dropped.
func (l *Log) Seek(ts bson.Timestamp) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	live := l.entries[l.head:]
	if len(live) > 0 && !live[0].First && Compare(live[0].TS, ts) > 0 {
		return 0, ErrLost
	}
	i := sort.Search(len(live), func(i int) bool { return Compare(live[i].TS, ts) >= 0 })
	return l.first + uint64(i), nil
}

// Wait blocks until readers see an entry at position. It returns false if ctx ends or stop
// is closed first.
func (l *Log) Wait(ctx context.Context, stop <-chan struct{}, position uint64) bool {
	for {
		l.mu.Lock()
		if l.visible() > position {
			l.mu.Unlock()
			return true
		}
		l.waiting++
		wake := l.wake
		l.mu.Unlock()
		select {
		case <-wake:
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// All returns all entries in the log.
func (l *Log) All() []*Entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return append([]*Entry(nil), l.entries[l.head:]...)
}

// Stats is the size of the log and its limits.
type Stats struct {
	Entries int
	Bytes   int64
	Limits  Limits
}

// Stats returns the size of the log and its limits.
func (l *Log) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return Stats{Entries: len(l.entries) - l.head, Bytes: l.bytes, Limits: l.limits}
}
