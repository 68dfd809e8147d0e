package e2e_test

import "time"

// Faults that only some backends can inject. A test requests one with [capability].
type (
	// linkRefuser is a broker that ends its links and refuses new ones for a while on
	// demand.
	linkRefuser interface {
		RefuseLinks(d time.Duration, condition string) error
	}
	// promoter is a broker whose alias can be pointed to another, empty one.
	promoter interface{ Promote() error }
	// lockLoser is a broker that ends sessions' locks on demand.
	lockLoser interface{ LoseSessionLocks() (int, error) }
	// writeHolder is a store that holds the projectors' writes to a collection on demand,
	// until it is healed.
	writeHolder interface {
		HoldWrites(command, collection string, n int)
		WritesToHold() int
		HealStore()
	}
	// storeHanger is a store that delays the services' commands on demand.
	storeHanger interface {
		HangStore()
		HealStore()
	}
	// documentFailer is a store that fails writes of single documents on demand.
	documentFailer interface {
		FailDocuments(collection string, ids []string)
		HealStore()
	}
	// forbidder is a store that refuses the projectors' commands on demand, as if a right were
	// missing.
	forbidder interface {
		Forbid(command, collection string)
		HealStore()
	}
	// storeDelayer is a store that replies late on demand.
	storeDelayer interface{ SlowStore(d time.Duration) }
	// historyLoser is an event store that drops its oplog on demand.
	historyLoser interface{ LoseHistory() }
)

// capability returns the scenario's backend as a T. If the backend is none, the test is
// skipped.
func capability[T any](s *scenario, name string) T {
	s.t.Helper()
	able, ok := s.backend.(T)
	if !ok {
		s.t.Skipf("the backend %q cannot do what this test needs: %s", suite.kind, name)
	}
	return able
}
