package oplog

import (
	"context"
	"errors"
	"sort"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// ErrLost says that the position asked for is no longer in the log.
var ErrLost = errors.New("read the oplog: the position is no longer in it")

// Limits bound a log; zero means no bound.
type Limits struct {
	Entries int
	Bytes   int64
}

// Log is the log. Positions count all entries ever appended, from 0. Append is
// called by one goroutine at a time, all else by any.
type Log struct {
	mu      sync.RWMutex
	limits  Limits
	entries []*Entry
	head    int    // index in entries of the oldest
	first   uint64 // position of the oldest
	bytes   int64
	wake    chan struct{}
	waiting int
}

// New makes an empty log.
func New(limits Limits) *Log {
	return &Log{limits: limits, wake: make(chan struct{})}
}

// Append adds entries, drops what no longer fits, and wakes who waits. The
// entries of one cluster time, a transaction's, stay or go together, and the
// newest always stay: the server has them in one entry.
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
	if l.waiting > 0 {
		l.waiting = 0
		close(l.wake)
		l.wake = make(chan struct{})
	}
}

func (l *Log) over() bool {
	n := len(l.entries) - l.head
	return l.limits.Entries > 0 && n > l.limits.Entries || l.limits.Bytes > 0 && l.bytes > l.limits.Bytes
}

// drop drops the oldest entries, those of one time, and reports whether there are
// newer ones.
func (l *Log) drop() bool {
	live := l.entries[l.head:]
	n := 0
	for n < len(live) && live[n].TS == live[0].TS {
		n++
	}
	if n == len(live) {
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

// Truncate drops all but the newest keep entries, at least those of the newest
// cluster time.
func (l *Log) Truncate(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.entries)-l.head > keep && l.drop() {
	}
	l.compact()
}

// End is the position after the newest entry.
func (l *Log) End() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.end()
}

func (l *Log) end() uint64 { return l.first + uint64(len(l.entries)-l.head) }

// Newest is the cluster time of the newest entry.
func (l *Log) Newest() bson.Timestamp {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.entries) == l.head {
		return bson.Timestamp{}
	}
	return l.entries[len(l.entries)-1].TS
}

// Read copies up to len(into) entries from a position on and gives how many.
// It fails with [ErrLost] where the position has been dropped.
func (l *Log) Read(position uint64, into []*Entry) (int, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if position < l.first {
		return 0, ErrLost
	}
	if position >= l.end() {
		return 0, nil
	}
	return copy(into, l.entries[l.head+int(position-l.first):]), nil
}

// Seek finds the position of the first entry at or after a cluster time. It
// fails with [ErrLost] where older entries than the log's first may have been at
// or after it.
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

// Wait blocks until there is an entry at position, and reports whether there is;
// it gives up when ctx ends or stop is closed.
func (l *Log) Wait(ctx context.Context, stop <-chan struct{}, position uint64) bool {
	for {
		l.mu.Lock()
		if l.end() > position {
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

// All are the entries that the log holds.
func (l *Log) All() []*Entry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return append([]*Entry(nil), l.entries[l.head:]...)
}

// Stats describes the log.
type Stats struct {
	Entries int
	Bytes   int64
	Limits  Limits
}

// Stats gives the log's size.
func (l *Log) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return Stats{Entries: len(l.entries) - l.head, Bytes: l.bytes, Limits: l.limits}
}
