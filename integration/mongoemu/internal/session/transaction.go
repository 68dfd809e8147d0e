package session

import (
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// Start opens a transaction. Its number must be greater than all earlier numbers of the
// session.
func (s *Session) Start(number int64) (*store.Tx, error) {
	switch {
	case number < s.number:
		return nil, mongoerr.New(mongoerr.TransactionTooOld, "Cannot start transaction %d on session %s because a newer transaction %d has already started.", number, s.name(), s.number)
	case number == s.number:
		return nil, mongoerr.New(mongoerr.ConflictingOperationInProgress, "Only servers in a sharded cluster can start a new transaction at the active transaction number")
	}
	s.next(number, inProgress)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tx = s.manager.store.Begin()
	s.started = s.manager.now()
	return s.tx, nil
}

// Continue returns the open transaction with a number.
func (s *Session) Continue(number int64) (*store.Tx, error) {
	switch {
	case number < s.number:
		return nil, mongoerr.New(mongoerr.TransactionTooOld, "Cannot continue transaction %d on session %s because a newer transaction with txnNumber %d has already started on this session.", number, s.name(), s.number)
	case number > s.number || s.state == retryable:
		return nil, mongoerr.New(mongoerr.NoSuchTransaction, "Given transaction number %d does not match any in-progress transactions. The active transaction number is %d", number, s.number)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.expired || s.state == aborted:
		s.state = aborted
		return nil, mongoerr.New(mongoerr.NoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", number)
	case s.state == committed:
		return nil, mongoerr.New(mongoerr.TransactionCommitted, "Transaction with { txnNumber: %d } has been committed.", number)
	}
	return s.tx, nil
}

// Commit commits the transaction with a number. It does nothing if the transaction is
// already committed.
func (s *Session) Commit(number int64) error {
	tx, err := s.Continue(number)
	if mongoerr.Has(err, mongoerr.TransactionCommitted) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tx.Commit(s.oplogTransaction()); err != nil {
		s.finish(aborted)
		return err
	}
	s.held = s.manager.store.Log().Held()
	s.finish(committed)
	return nil
}

// Abort aborts the transaction with a number.
func (s *Session) Abort(number int64) error {
	tx, err := s.Continue(number)
	if err != nil {
		return err
	}
	tx.Abort()
	s.finish(aborted)
	return nil
}

// Fail aborts the open transaction after an error of one of its commands.
func (s *Session) Fail() {
	s.mu.Lock()
	tx := s.tx
	s.mu.Unlock()
	if tx != nil && s.state == inProgress {
		tx.Abort()
		s.finish(aborted)
	}
}

func (s *Session) finish(state txnState) {
	s.state = state
	s.mu.Lock()
	s.tx = nil
	s.mu.Unlock()
}
