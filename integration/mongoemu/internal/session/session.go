package session

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// Timeout is how long an unused session is kept, the server's default.
const Timeout = 30 * time.Minute

// Manager is all sessions.
type Manager struct {
	store    *store.Store
	now      func() time.Time
	lifetime time.Duration

	mu       sync.Mutex
	sessions map[string]*Session
}

// NewManager makes a manager without sessions. A transaction older than lifetime
// is aborted by [Manager.Reap].
func NewManager(s *store.Store, now func() time.Time, lifetime time.Duration) *Manager {
	return &Manager{store: s, now: now, lifetime: lifetime, sessions: map[string]*Session{}}
}

// Lifetime is the oldest that a transaction may get.
func (m *Manager) Lifetime() time.Duration { return m.lifetime }

// Session is one logical session. A command that has a transaction number holds
// it for its duration.
type Session struct {
	manager *Manager
	id      string
	turn    chan struct{}

	// Guarded by turn.
	number  int64
	results map[int32]Result
	state   txnState

	mu      sync.Mutex // guards what the reaper reads
	used    time.Time
	tx      *store.Tx
	started time.Time
	expired bool
}

// Result is what a retried statement answers with.
type Result struct {
	N, Modified int32
	// Upserted is the upserted _id, absent where there was none.
	Upserted bsonraw.Value
	// Reply is a findAndModify's whole answer.
	Reply []byte
}

type txnState byte

const (
	none txnState = iota
	retryable
	inProgress
	committed
	aborted
)

// Get finds or makes the session of an lsid document.
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

// ID identifies the session.
func (s *Session) ID() string { return s.id }

// Acquire waits for the session's turn; Release ends it.
func (s *Session) Acquire(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return store.Interrupted(ctx)
	}
}

// Release ends what Acquire began.
func (s *Session) Release() { <-s.turn }

// End forgets sessions and aborts their transactions.
func (m *Manager) End(lsids [][]byte) {
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

// AbortAll aborts every open transaction.
func (m *Manager) AbortAll() {
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

func (s *Session) abortNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tx != nil {
		s.tx.Abort()
		s.expired = true
	}
}

// Reap aborts transactions that are too old and forgets sessions that are unused.
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

// anonymous is the digest of the user of a server without authentication, which
// change events show beside the session.
var anonymous = sha256.Sum256(nil)

// oplogTransaction is how the log names the session's transaction.
func (s *Session) oplogTransaction() *oplog.Transaction {
	b := bsonraw.NewBuilder(96)
	b.Value("id", bsonraw.Value{Type: bsoncore.TypeBinary, Data: []byte(s.id)})
	b.Binary("uid", 0, anonymous[:])
	return &oplog.Transaction{Session: b.Bytes(), Number: s.number}
}
