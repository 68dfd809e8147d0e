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

// Store is all databases. Its methods may be called by many goroutines.
type Store struct {
	now   func() time.Time
	log   *oplog.Log
	clock *Clock

	mu          sync.RWMutex
	collections map[Namespace]*Collection
	reserved    map[string]*Tx
	open        map[*Tx]struct{}
	ended       chan struct{} // closed when a transaction ends
	nextRecord  uint64
	journal     *journal.Journal // nil for a store in memory only
	published   []*oplog.Entry   // not yet in the log, see flush
	failed      chan struct{}    // closed when the journal has failed
}

// New makes an empty store, in memory only, that writes to log and reads time from
// now.
func New(log *oplog.Log, now func() time.Time) *Store {
	s := empty(log, now)
	_ = s.initiate() // only a journal fails
	return s
}

// initiate begins the log.
func (s *Store) initiate() error {
	s.publish([]*oplog.Entry{{TS: s.clock.Next(), First: true, Wall: s.now().UnixMilli(), Message: "initiating set"}}, nil)
	return s.flush()
}

func empty(log *oplog.Log, now func() time.Time) *Store {
	return &Store{
		now: now, log: log, clock: newClock(now),
		collections: map[Namespace]*Collection{},
		reserved:    map[string]*Tx{},
		open:        map[*Tx]struct{}{},
		ended:       make(chan struct{}),
		failed:      make(chan struct{}),
	}
}

// Log is the store's oplog.
func (s *Store) Log() *oplog.Log { return s.log }

// Clock is the store's cluster time.
func (s *Store) Clock() *Clock { return s.clock }

// OperationTime is the cluster time of the newest write.
func (s *Store) OperationTime() bson.Timestamp { return s.log.Newest() }

// Noop appends an entry that changes nothing, which moves time on for idle
// change streams.
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

// Reach makes the newest write at least as late as ts, for a read that must come
// after it.
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

// Viewer reads with the shared lock held.
type Viewer struct {
	store *Store
	tx    *Tx
}

// View runs fn with the shared lock.
func (s *Store) View(tx *Tx, fn func(*Viewer) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := errors.Join(s.intact(), tx.usable()); err != nil {
		return err
	}
	return fn(&Viewer{store: s, tx: tx})
}

// Collection is a collection as the transaction, or as everybody, sees it; nil
// where there is none.
func (v *Viewer) Collection(ns Namespace) *Collection {
	if v.tx != nil {
		return v.tx.collections[ns]
	}
	return v.store.collections[ns]
}

// Names lists a database's collections, ordered.
func (v *Viewer) Names(db string) []string {
	var names []string
	for ns := range v.store.collections {
		if ns.DB == db {
			names = append(names, ns.Coll)
		}
	}
	return sortedNames(names)
}

// Databases lists the databases that have a collection, ordered.
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

// Find is the document with the given _id key.
func (c *Collection) Find(idKey string) []byte {
	if r := c.byKey(idKey); r != nil {
		return r.Doc
	}
	return nil
}

// errBlocked says that a plain write met a document that a transaction has
// reserved.
var errBlocked = errors.New("wait for a transaction to end")

// Blocked reports whether a write in [Store.Do] has to wait; the function must
// give the error back.
func Blocked(err error) bool { return errors.Is(err, errBlocked) }

// Do runs fn with the exclusive lock. Where fn meets what another transaction
// has reserved it is run again, from its beginning, after a transaction has
// ended: fn must have changed nothing by then.
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

// Interrupted is the error of an operation whose context has ended: its time
// was up, or the server is closing.
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
