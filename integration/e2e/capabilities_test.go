package e2e_test

import "time"

// What only some backends can do. A test asks for it with [capability].
type (
	// throttler is a broker that refuses for a while when it is told to.
	throttler interface{ Throttle(d time.Duration) }
	// connectionDropper is a broker that breaks its connections when it is told to.
	connectionDropper interface{ DropConnections() int }
	// linkDetacher is a broker that ends its links for a reason when it is told to.
	linkDetacher interface{ DetachLinks(condition string) error }
	// linkRefuser is a broker that ends its links and refuses new ones for a while when it
	// is told to.
	linkRefuser interface {
		RefuseLinks(d time.Duration, condition string) error
	}
	// messageRefuser is a broker that refuses certain events for good when it is told to.
	messageRefuser interface {
		RefuseMessages(matches func(aggregateID string, eventID int64) bool, condition string)
	}
	// lockLoser is a broker that ends sessions' locks when it is told to.
	lockLoser interface{ LoseSessionLocks() (int, error) }
	// streamInterrupter is an event store that fails its change streams and takes
	// their cursors away when it is told to.
	streamInterrupter interface{ InterruptStreams() int }
	// streamDelayer is an event store that answers its change streams late, or neither
	// them nor pings, when it is told to.
	streamDelayer interface {
		DelayStream(n int, d time.Duration)
		HangStream()
		HealStore()
	}
	// updateHolder is a store of read models that carries updates out late when it is
	// told to, also those of clients that have gone.
	updateHolder interface {
		HoldUpdates(n int, d time.Duration)
		UpdatesToHold() int
	}
	// writeHolder is a store that holds projectors' writes to a collection until it is
	// told to carry them out.
	writeHolder interface {
		HoldWrites(command, collection string, n int)
		WritesToHold() int
		HealStore()
	}
	// storeFailer is an event store that fails or ignores the services' commands when
	// it is told to, and counts them.
	storeFailer interface {
		FailStore(code int32)
		HangStore()
		HealStore()
		CommandsToStore() (publishers, projectors int)
	}
	// readForbidder is a store that refuses the projectors' queries when it is told to.
	readForbidder interface {
		ForbidReading()
		HealStore()
	}
	// renameHolder is a store of read models that renames collections late when it is told
	// to, also for clients that have gone.
	renameHolder interface {
		HoldRenames(n int, d time.Duration)
		RenamesToHold() int
	}
	// eventLoser is a broker that loses and expires certain events when it is told to.
	eventLoser interface {
		LoseEvents(matches func(aggregateID string, eventID int64) bool) error
		ExpireEvents(matches func(aggregateID string, eventID int64) bool) error
	}
	// historyLoser is an event store that drops its oplog when it is told to.
	historyLoser interface{ LoseHistory() }
)

// capability is the scenario's backend as what can do that. A test whose backend
// cannot is skipped.
func capability[T any](s *scenario, name string) T {
	s.t.Helper()
	able, ok := s.backend.(T)
	if !ok {
		s.t.Skipf("the backend %q cannot do what this test needs: %s", suite.kind, name)
	}
	return able
}
