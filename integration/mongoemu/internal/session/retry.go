package session

import (
	"encoding/hex"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// BeginRetryable starts a retryable write with a transaction number. The newest number
// again is a retry. A lower number is an error.
func (s *Session) BeginRetryable(number int64) error {
	switch {
	case number < s.number:
		return s.tooOld(number)
	case number == s.number && s.state != retryable:
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "Cannot use a transaction number of a transaction for a retryable write: %d", number)
	case number > s.number:
		s.next(number, retryable)
	}
	return nil
}

// next starts a new transaction number. It aborts an open transaction.
func (s *Session) next(number int64, state txnState) {
	s.abortNow()
	s.number, s.state = number, state
	s.results = nil
	s.mu.Lock()
	s.tx, s.expired = nil, false
	s.mu.Unlock()
}

func (s *Session) tooOld(number int64) error {
	return mongoerr.New(mongoerr.TransactionTooOld, "Retryable write with txnNumber %d is prohibited on session %s because a newer retryable write with txnNumber %d has already started on this session.",
		number, s.name(), s.number)
}

func (s *Session) name() string { return hex.EncodeToString([]byte(s.id[5:])) }

// Done returns the result of a statement that the newest retryable write has already
// executed.
func (s *Session) Done(statement int32) (Result, bool) {
	r, ok := s.results[statement]
	return r, ok
}

// Remember keeps the result of a statement for a retry.
func (s *Session) Remember(statement int32, r Result) {
	if s.results == nil {
		s.results = map[int32]Result{}
	}
	r.held = s.manager.store.Log().Held()
	s.results[statement] = r
}
