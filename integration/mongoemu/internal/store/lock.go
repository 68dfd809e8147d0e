package store

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Mode is the mode of a lock on a database or a collection.
type Mode byte

// The modes. Intent locks are compatible with each other, and an exclusive lock with none.
const (
	// Intent is for commands that read or write documents. The server has one mode for
	// reads and one for writes, which differ only in what a shared lock does to them. No
	// command here takes one.
	Intent Mode = iota + 1
	// Exclusive is for commands that change the collection or the database itself.
	Exclusive
)

// lockRequestTimeout is the server's maxTransactionLockRequestTimeoutMillis: how long a
// transaction waits for a lock.
const lockRequestTimeout = 5 * time.Millisecond

// locks are the locks on databases and collections. They are granted in the order of the
// requests, as in the server's lock manager: once an exclusive request waits, all later
// requests wait behind it, although they are compatible with the locks that are held. A
// transaction keeps its locks until it ends, and is not asked to wait for a lock that it
// holds.
//
// The server's global lock is missing, because every command here would take it in an intent
// mode. TestLocksOfCommands has the lock of each command. The sources are the page "FAQ:
// Concurrency" of MongoDB's manual, in several versions, and the server's code.
type locks struct {
	mu sync.Mutex
	// queues are by collection. A namespace without a collection is a database.
	queues map[Namespace]*lockQueue
}

// lockQueue has the requests for one database or collection.
type lockQueue struct{ granted, waiting []*lock }

// lock is a request for a lock, which is held when granted is closed.
type lock struct {
	ns      Namespace
	mode    Mode
	tx      *Tx // nil outside a transaction
	granted chan struct{}
}

// Lock waits for a lock on each of the namespaces, and before for an intent lock on the
// databases of the collections among them. A namespace without a collection is a database. A
// transaction releases its locks when it ends, and others by calling release. The error is
// MaxTimeMSExpired if ctx has exceeded its deadline, and LockTimeout inside a transaction.
func (s *Store) Lock(ctx context.Context, tx *Tx, mode Mode, namespaces ...Namespace) (release func(), err error) {
	// The order is always the same, so that no two commands wait for each other.
	slices.SortFunc(namespaces, func(a, b Namespace) int { return strings.Compare(a.String(), b.String()) })
	wanted := make([]*lock, 0, 2*len(namespaces))
	for i, ns := range slices.Compact(namespaces) {
		if ns.Coll != "" && (i == 0 || namespaces[i-1].DB != ns.DB) {
			wanted = append(wanted, newLock(Namespace{DB: ns.DB}, Intent, tx))
		}
		wanted = append(wanted, newLock(ns, mode, tx))
	}
	var held []*lock
	release = func() { s.locks.release(held...) }
	for _, l := range wanted {
		if err := s.locks.acquire(ctx, l); err != nil {
			release()
			return nil, err
		}
		if tx == nil {
			held = append(held, l)
		}
	}
	if tx != nil && !tx.Open() {
		s.locks.end(tx) // It has ended meanwhile.
	}
	return release, nil
}

func newLock(ns Namespace, mode Mode, tx *Tx) *lock {
	return &lock{ns: ns, mode: mode, tx: tx, granted: make(chan struct{})}
}

func (l *locks) acquire(ctx context.Context, wanted *lock) error {
	if !l.enqueue(wanted) {
		return nil
	}
	var late <-chan time.Time
	if wanted.tx != nil {
		timer := time.NewTimer(lockRequestTimeout)
		defer timer.Stop()
		late = timer.C
	}
	var err error
	select {
	case <-wanted.granted:
		return nil
	case <-ctx.Done():
		err = Interrupted(ctx)
	case <-late:
		err = mongoerr.New(mongoerr.LockTimeout, "Unable to acquire lock on '%s' within %dms.", wanted.ns, lockRequestTimeout.Milliseconds())
	}
	l.release(wanted)
	return err
}

// enqueue adds a request and reports whether it has to wait.
func (l *locks) enqueue(wanted *lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[wanted.ns]
	if q == nil {
		q = &lockQueue{}
		if l.queues == nil {
			l.queues = map[Namespace]*lockQueue{}
		}
		l.queues[wanted.ns] = q
	}
	if wanted.tx != nil && slices.ContainsFunc(q.granted, func(held *lock) bool { return held.tx == wanted.tx }) {
		return false
	}
	q.waiting = append(q.waiting, wanted)
	q.grant()
	return !slices.Contains(q.granted, wanted)
}

// grant grants the requests at the head of the queue that are compatible with the locks
// that are held.
func (q *lockQueue) grant() {
	for len(q.waiting) > 0 {
		next := q.waiting[0]
		if slices.ContainsFunc(q.granted, func(held *lock) bool { return next.mode == Exclusive || held.mode == Exclusive }) {
			return
		}
		q.waiting = q.waiting[1:]
		q.granted = append(q.granted, next)
		close(next.granted)
	}
}

// release releases locks, or removes requests that still wait.
func (l *locks) release(all ...*lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, given := range all {
		l.remove(given.ns, func(each *lock) bool { return each == given })
	}
}

// end releases the locks of a transaction.
func (l *locks) end(tx *Tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ns := range l.queues {
		l.remove(ns, func(each *lock) bool { return each.tx == tx })
	}
}

func (l *locks) remove(ns Namespace, which func(*lock) bool) {
	q := l.queues[ns]
	if q == nil {
		return
	}
	q.granted = slices.DeleteFunc(q.granted, which)
	q.waiting = slices.DeleteFunc(q.waiting, which)
	if q.grant(); len(q.granted) == 0 {
		delete(l.queues, ns)
	}
}
