package store

import "errors"

// Isolate makes all later writes those of a primary without its secondaries: the log and
// readers with the read concern majority do not see them.
func (s *Store) Isolate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.journal != nil:
		return errors.New("isolate the primary: a store with a journal cannot lose writes")
	case s.committed != nil:
		return nil
	}
	s.committed = make(map[Namespace]*Collection, len(s.collections))
	for ns, c := range s.collections {
		s.committed[ns] = c.snapshot()
	}
	s.log.Hold()
	return nil
}

// Rejoin ends [Store.Isolate]: the secondaries copy what they lack.
func (s *Store) Rejoin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = nil
	s.log.Release()
}

// Elect makes another member the primary, which has none of the writes since
// [Store.Isolate]. No transaction may be open.
func (s *Store) Elect() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed != nil {
		s.collections, s.committed = s.committed, nil
	}
	s.log.Discard()
	s.noop("new primary")
	return s.flush()
}

// Majority stands for a transaction in reads with the read concern majority: they see only
// what a majority has.
func (s *Store) Majority() *Tx { return s.majority }
