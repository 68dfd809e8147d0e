package session

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// Timeout is how long an unused session is kept. It is the server's default.
const Timeout = 30 * time.Minute

// Manager manages all sessions.
type Manager struct {
	store    *store.Store
	now      func() time.Time
	lifetime time.Duration

	mu       sync.Mutex
	sessions map[string]*Session
}

// NewManager returns a manager without sessions. [Manager.Reap] aborts transactions that
// are open for lifetime or longer.
func NewManager(s *store.Store, now func() time.Time, lifetime time.Duration) *Manager {
	return &Manager{store: s, now: now, lifetime: lifetime, sessions: map[string]*Session{}}
}

// Session is one logical session. A command with a transaction number holds it until the
// command ends.
type Session struct {
	manager *Manager
	id      string
	turn    chan struct{}

	// turn guards these fields.
	number  int64
	results map[int32]Result
	state   txnState
	// held is the log's [oplog.Log.Held] at the commit.
	held int

	mu      sync.Mutex // guards the fields that the reaper reads
	used    time.Time
	tx      *store.Tx
	started time.Time
	expired bool
}

// Result is the result of a statement, which a retry returns again.
type Result struct {
	N, Modified int32
	// Upserted is the _id of the upserted document; absent if there is none.
	Upserted bsonraw.Value
	// Reply is the whole reply of a findAndModify.
	Reply []byte
	held  int // the log's [oplog.Log.Held] at the statement
}

type txnState byte

const (
	none txnState = iota
	retryable
	inProgress
	committed
	aborted
)

// Get returns the session of an lsid document. It creates the session if there is none.
func (m *Manager) Get(lsid []byte) (*Session, error) {
	id, ok := bsonraw.Lookup(lsid, "id")
	if !ok || id.Type != bsoncore.TypeBinary {
		return nil, mongoerr.New(40414, "BSON field 'OperationSessionInfo.lsid.id' is missing but a required field")
	}
	if subtype, data := id.Binary(); subtype != 4 || len(data) != 16 {
		return nil, mongoerr.New(mongoerr.InvalidUUID, "uuid must be a 16-byte binary field with UUID (4) subtype")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := string(id.Data)
	s := m.sessions[key]
	if s == nil {
		s = &Session{manager: m, id: key, turn: make(chan struct{}, 1), number: -1}
		m.sessions[key] = s
	}
	s.mu.Lock()
	s.used = m.now()
	s.mu.Unlock()
	return s, nil
}

// ID returns the key of the session.
func (s *Session) ID() string { return s.id }

// Acquire waits until no other command holds the session, and then holds it.
func (s *Session) Acquire(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.Interrupted(ctx)
	}
}

// Release ends the hold of Acquire.
func (s *Session) Release() { <-s.turn }

// Kill removes sessions and aborts their transactions.
func (m *Manager) Kill(lsids [][]byte) {
	for _, lsid := range lsids {
		id, ok := bsonraw.Lookup(lsid, "id")
		if !ok {
			continue
		}
		m.mu.Lock()
		s := m.sessions[string(id.Data)]
		delete(m.sessions, string(id.Data))
		m.mu.Unlock()
		if s != nil {
			s.abortNow()
		}
	}
}

func (m *Manager) abortAll() {
	m.mu.Lock()
	all := make([]*Session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		s.abortNow()
	}
}

// Elect aborts every open transaction, and forgets the writes of a [oplog.Log.Hold], which
// the new primary does not have. No command may be running.
func (m *Manager) Elect(held int) {
	m.abortAll()
	m.mu.Lock()
	defer m.mu.Unlock()
	if held == 0 {
		return
	}
	for _, s := range m.sessions {
		if s.state == committed && s.held == held {
			s.state = aborted
		}
		maps.DeleteFunc(s.results, func(_ int32, r Result) bool { return r.held == held })
	}
}

func (s *Session) abortNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx != nil {
		s.tx.Abort()
		s.expired = true
	}
}

// Reap aborts transactions that have reached the lifetime, and removes sessions that were
// not used for [Timeout].
func (m *Manager) Reap() {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, s := range m.sessions {
		s.mu.Lock()
		if s.tx != nil && now.Sub(s.started) >= m.lifetime {
			s.tx.Abort()
			s.expired = true
		}
		if (s.tx == nil || s.expired) && now.Sub(s.used) >= Timeout {
			delete(m.sessions, key)
		}
		s.mu.Unlock()
	}
}

// anonymous is the user digest of a server without authentication. Change events contain
// it in lsid.
var anonymous = sha256.Sum256(nil)

// oplogTransaction returns the session's transaction as log entries contain it.
func (s *Session) oplogTransaction() *oplog.Transaction {
	b := bsonraw.NewBuilder(96)
	b.Value("id", bsonraw.Value{Type: bsoncore.TypeBinary, Data: []byte(s.id)})
	b.Binary("uid", 0, anonymous[:])
	return &oplog.Transaction{Session: b.Bytes(), Number: s.number}
}
