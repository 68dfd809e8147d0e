package store

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/journal"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

// Store holds all databases. Its methods are safe for concurrent use.
type Store struct {
	now   func() time.Time
	log   *oplog.Log
	clock *Clock
	locks locks

	mu          sync.RWMutex
	collections map[Namespace]*Collection
	reserved    map[string]*Tx
	ended       chan struct{} // closed and replaced when a transaction ends
	nextRecord  uint64
	journal     *journal.Journal // nil for a store in memory only
	published   []*oplog.Entry   // not in the log yet; flush appends them
	failed      chan struct{}    // closed when the journal has failed
	majority    *Tx
	// committed are the collections as a majority has them; nil if it has every write.
	committed map[Namespace]*Collection
}

// New returns an empty store in memory. It appends its changes to log and reads the time
// from now.
func New(log *oplog.Log, now func() time.Time) *Store {
	s := empty(log, now)
	_ = s.initiate() // only a journal can fail
	return s
}

// initiate appends the first entry of the log.
func (s *Store) initiate() error {
	s.publish([]*oplog.Entry{{TS: s.clock.Next(), First: true, Wall: s.now().UnixMilli(), Message: "initiating set"}}, nil)
	return s.flush()
}

func empty(log *oplog.Log, now func() time.Time) *Store {
	return &Store{
		now: now, log: log, clock: newClock(now),
		collections: map[Namespace]*Collection{},
		reserved:    map[string]*Tx{},
		ended:       make(chan struct{}),
		failed:      make(chan struct{}),
		majority:    &Tx{},
	}
}

// Log returns the store's oplog.
func (s *Store) Log() *oplog.Log { return s.log }

// Clock returns the store's cluster clock.
func (s *Store) Clock() *Clock { return s.clock }

// OperationTime returns the cluster time of the newest write.
func (s *Store) OperationTime() bson.Timestamp { return s.log.Newest() }

// Noop appends a noop entry. It advances the cluster time for idle change streams.
func (s *Store) Noop(message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noop(message)
	return s.flush()
}

func (s *Store) noop(message string) { s.append(&oplog.Entry{Message: message}) }

func (s *Store) append(e *oplog.Entry) {
	e.TS = s.clock.Next()
	e.Wall = s.now().UnixMilli()
	s.publish([]*oplog.Entry{e}, nil)
}

// Reach advances the newest cluster time to ts or later, for a read that must come after
// ts.
func (s *Store) Reach(ts bson.Timestamp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ts.After(s.log.Newest()) {
		return nil
	}
	s.clock.Observe(ts)
	s.noop("read concern")
	return s.flush()
}

// Viewer reads while the shared lock is held.
type Viewer struct {
	store *Store
	tx    *Tx
}

// View runs fn while it holds the shared lock. tx is nil for reads outside a transaction.
func (s *Store) View(tx *Tx, fn func(*Viewer) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := errors.Join(s.intact(), tx.usable()); err != nil {
		return err
	}
	return fn(&Viewer{store: s, tx: tx})
}

// Collection returns a collection as the transaction sees it, or the shared one outside a
// transaction; nil if it does not exist.
func (v *Viewer) Collection(ns Namespace) *Collection {
	switch {
	case v.tx == v.store.majority && v.store.committed != nil:
		return v.store.committed[ns]
	case v.tx == nil || v.tx == v.store.majority:
		return v.store.collections[ns]
	}
	return v.tx.collections[ns]
}

// Names returns the sorted names of a database's collections.
func (v *Viewer) Names(db string) []string {
	var names []string
	for ns := range v.store.collections {
		if ns.DB == db {
			names = append(names, ns.Coll)
		}
	}
	return sortedNames(names)
}

// Databases returns the sorted names of the databases that have a collection.
func (v *Viewer) Databases() []string {
	seen := map[string]bool{}
	names := []string{}
	for ns := range v.store.collections {
		if !seen[ns.DB] {
			seen[ns.DB] = true
			names = append(names, ns.DB)
		}
	}
	return sortedNames(names)
}

// Find returns the document with the given _id key, or nil.
func (c *Collection) Find(idKey string) []byte {
	if r := c.byKey(idKey); r != nil {
		return r.Doc
	}
	return nil
}

// errBlocked says that an operation outside a transaction must wait until an open
// transaction ends.
var errBlocked = errors.New("wait for a transaction to end")

// Blocked reports whether a write must wait for a transaction. The function that
// [Store.Do] runs must return such an error, and Do waits.
func Blocked(err error) bool { return errors.Is(err, errBlocked) }

// Do runs fn while it holds the exclusive lock. If fn returns an error for which
// [Blocked] is true, Do waits until a transaction ends and runs fn again. fn must
// therefore either change nothing before such an error, or continue where it stopped.
func (s *Store) Do(ctx context.Context, tx *Tx, fn func(*Writer) error) error {
	for {
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			s.mu.Unlock()
			return Interrupted(ctx)
		}
		if err := errors.Join(s.intact(), tx.usable()); err != nil {
			s.mu.Unlock()
			return err
		}
		err := fn(&Writer{store: s, tx: tx})
		flushed := s.flush()
		ended := s.ended
		s.mu.Unlock()
		if flushed != nil {
			return flushed
		}
		if !errors.Is(err, errBlocked) {
			return err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return Interrupted(ctx)
		}
	}
}

// Interrupted returns the error of an operation whose context has ended, because its time
// limit expired or the server is closing.
func Interrupted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return mongoerr.New(mongoerr.MaxTimeMSExpired, "operation exceeded time limit")
	}
	if e := new(mongoerr.Error); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown")
}

func errCollectionGone(ns Namespace) error {
	return mongoerr.New(mongoerr.QueryPlanKilled, "collection dropped. UUID of %s no longer exists", ns)
}

func newUUID() (id [16]byte) {
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
