package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

func lsid(n byte) []byte {
	id := [16]byte{15: n}
	return bsonraw.NewBuilder(32).Binary("id", 4, id[:]).Bytes()
}

func newManager() *session.Manager {
	s := store.New(oplog.New(oplog.Limits{}), time.Now)
	return session.NewManager(s, time.Now, time.Minute)
}

func get(t *testing.T, m *session.Manager, n byte) *session.Session {
	t.Helper()
	s, err := m.Get(lsid(n))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantCode(t *testing.T, err error, code mongoerr.Code) {
	t.Helper()
	if !mongoerr.Has(err, code) {
		t.Errorf("%v, want code %d", err, code)
	}
}

func TestTransactionNumbersOnlyIncrease(t *testing.T) {
	t.Parallel()
	m := newManager()
	s := get(t, m, 1)
	if err := s.BeginRetryable(5); err != nil {
		t.Fatal(err)
	}
	s.Remember(0, session.Result{N: 1})
	if err := s.BeginRetryable(5); err != nil {
		t.Fatal(err)
	}
	if r, ok := s.Done(0); !ok || r.N != 1 {
		t.Errorf("%+v, %v", r, ok)
	}
	wantCode(t, s.BeginRetryable(4), mongoerr.TransactionTooOld)
	if err := s.BeginRetryable(6); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Done(0); ok {
		t.Error("a newer transaction number returned the results of an older one")
	}
	_, err := s.Continue(6)
	wantCode(t, err, mongoerr.NoSuchTransaction)
	_, err = s.Start(6)
	wantCode(t, err, mongoerr.ConflictingOperationInProgress)
	tx, err := s.Start(7)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.BeginRetryable(7), mongoerr.ConflictingOperationInProgress)
	_, err = s.Continue(8)
	wantCode(t, err, mongoerr.NoSuchTransaction)
	_, err = s.Continue(6)
	wantCode(t, err, mongoerr.TransactionTooOld)
	// A newer transaction number aborts the open transaction.
	if err := s.BeginRetryable(8); err != nil {
		t.Fatal(err)
	}
	if tx.Open() {
		t.Error("the transaction is still open")
	}
}

func TestCommitAndAbortAgain(t *testing.T) {
	t.Parallel()
	m := newManager()
	s := get(t, m, 1)
	if _, err := s.Start(1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Commit(1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Continue(1)
	wantCode(t, err, mongoerr.TransactionCommitted)
	wantCode(t, s.Abort(1), mongoerr.TransactionCommitted)
	if _, err := s.Start(2); err != nil {
		t.Fatal(err)
	}
	if err := s.Abort(2); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Abort(2), mongoerr.NoSuchTransaction)
	wantCode(t, s.Commit(2), mongoerr.NoSuchTransaction)
}

func TestInvalidLsidsAreRefused(t *testing.T) {
	t.Parallel()
	m := newManager()
	_, err := m.Get(bsonraw.MustMarshal(bson.D{}))
	wantCode(t, err, 40414)
	_, err = m.Get(bsonraw.NewBuilder(32).Binary("id", 0, make([]byte, 16)).Bytes())
	wantCode(t, err, mongoerr.InvalidUUID)
}

// A transaction is aborted after one minute, unless it commits in time. Killed and unused
// sessions are removed.
func TestTransactionsAndSessionsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newManager()
		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // virtual time
			m.Reap()
		}
		old, young := get(t, m, 1), get(t, m, 2)
		tx, err := old.Start(1)
		if err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if _, err := young.Start(1); err != nil {
			t.Fatal(err)
		}
		pass(29 * time.Second)
		if !tx.Open() {
			t.Error("aborted too early")
		}
		pass(2 * time.Second)
		if tx.Open() {
			t.Error("still open after a minute")
		}
		_, err = old.Continue(1)
		wantCode(t, err, mongoerr.NoSuchTransaction)
		if err := young.Commit(1); err != nil {
			t.Error(err)
		}
		pass(session.Timeout + time.Second)
		if get(t, m, 1) == old || get(t, m, 2) == young {
			t.Error("an unused session was kept")
		}
		fresh := get(t, m, 3)
		tx, err = fresh.Start(1)
		if err != nil {
			t.Fatal(err)
		}
		m.Kill([][]byte{lsid(3)})
		if tx.Open() {
			t.Error("a killed session's transaction is open")
		}
	})
}

// Only one command at a time can hold a session.
func TestOneCommandAtATimeHoldsASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newManager()
		s := get(t, m, 1)
		if err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, s.Acquire(ctx), mongoerr.MaxTimeMSExpired)
		s.Release()
		if err := s.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
