package harness

import (
	"fmt"
	"time"
)

// Throttle has the broker refuse what it is asked with server-busy for a while. As
// all faults, it is what only a stand-in can do.
func (e *Embedded) Throttle(d time.Duration) { e.Broker.Throttle(d) }

// DropConnections breaks every connection to the broker without a word, and counts
// them.
func (e *Embedded) DropConnections() int { return e.Broker.DropConnections(nil) }

// LoseSessionLocks ends the lock of every session that is held, as if it had
// expired, and counts them.
func (e *Embedded) LoseSessionLocks() (int, error) {
	sessions, err := e.Broker.Sessions(e.SubscriptionPath())
	if err != nil {
		return 0, fmt.Errorf("list the sessions: %w", err)
	}
	lost := 0
	for _, session := range sessions {
		// One may have been released since: then there is nothing to lose.
		if session.Locked && e.Broker.LoseSessionLock(e.SubscriptionPath(), session.ID) == nil {
			lost++
		}
	}
	return lost, nil
}

// InterruptStreams fails every open change stream as a change of primary does,
// takes all cursors away, and counts the streams.
func (e *Embedded) InterruptStreams() int {
	streams := e.Mongo.InterruptStreams(0)
	e.Mongo.KillCursors()
	return streams
}

// LoseHistory drops all of the event store's oplog but its newest entry.
func (e *Embedded) LoseHistory() { e.Mongo.TruncateOplog(1) }
