package harness

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// Throttle has the broker refuse what it is asked with server-busy for a while. As
// all faults, it is what only a stand-in can do.
func (e *Embedded) Throttle(d time.Duration) { e.Broker.Throttle(d) }

// DropConnections breaks every connection to the broker without a word, and counts
// them.
func (e *Embedded) DropConnections() int { return e.Broker.DropConnections(nil) }

// DetachLinks ends every link that sends to the topic or receives from the
// subscription with that condition. Their connections stand.
func (e *Embedded) DetachLinks(condition string) error {
	return errors.Join(e.Broker.DetachLinks(embeddedTopic, condition), e.Broker.DetachLinks(e.SubscriptionPath(), condition))
}

// RefuseLinks ends every link with that condition and refuses new ones with it for a
// while.
func (e *Embedded) RefuseLinks(d time.Duration, condition string) error {
	e.Broker.RefuseLinks(d, condition)
	return e.DetachLinks(condition)
}

// RefuseMessages refuses with that condition, for good, every send with an event that
// matches.
func (e *Embedded) RefuseMessages(matches func(aggregateID string, eventID int64) bool, condition string) {
	e.Broker.RefuseMessages(ofEvents(matches), condition)
}

// LoseEvents loses the messages of events that match, after the topic has accepted them.
func (e *Embedded) LoseEvents(matches func(aggregateID string, eventID int64) bool) error {
	return e.Broker.LoseMessages(embeddedTopic, ofEvents(matches))
}

// ExpireEvents ends the time to live of the messages of events that match, when the topic
// has accepted them.
func (e *Embedded) ExpireEvents(matches func(aggregateID string, eventID int64) bool) error {
	return e.Broker.ExpireMessages(embeddedTopic, ofEvents(matches))
}

// ofEvents selects messages by their events.
func ofEvents(matches func(aggregateID string, eventID int64) bool) func(messageID string) bool {
	return func(messageID string) bool {
		aggregateID, eventID, err := parseMessageID(messageID)
		return err == nil && matches(aggregateID, eventID)
	}
}

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

// InterruptStreams fails the publisher's open change stream as a change of primary
// does, takes all cursors away, and counts the streams. The driver reopens a stream by
// itself, once: that fails too, and the rest is the publisher's.
func (e *Embedded) InterruptStreams() int {
	if _, streams := e.Mongo.OpenCursors(); streams == 0 {
		return 0
	}
	// The driver tries a read twice.
	e.Mongo.FailCommands(mongoemu.CommandFault{
		Commands: []string{"aggregate"}, AppName: publisherApp, Times: 2, Code: interruptedByFailover,
	})
	streams := e.Mongo.InterruptStreams(interruptedByFailover)
	e.Mongo.KillCursors()
	return streams
}

// DelayStream lets each of the publisher's next n requests for more of a cursor take d, as
// while the server scans a long oplog.
func (e *Embedded) DelayStream(n int, d time.Duration) {
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{"getMore"}, AppName: publisherApp, Times: n, Block: d})
}

// HangStream delays the publisher's requests for more of a cursor, and its pings, by half a
// minute until [Embedded.HealStore].
func (e *Embedded) HangStream() {
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{"getMore", "ping"}, AppName: publisherApp, Times: -1, Block: 30 * time.Second})
}

// interruptedByFailover is the code InterruptedDueToReplStateChange.
const interruptedByFailover = 11602

// HoldUpdates delays each of the next n updates of projectors by d. They are carried
// out then, whether or not their client is still there.
func (e *Embedded) HoldUpdates(n int, d time.Duration) {
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{"update"}, AppName: projectorApp, Times: n, Block: d})
}

// UpdatesToHold is how many calls of HoldUpdates have not met all their updates yet.
func (e *Embedded) UpdatesToHold() int { return e.Mongo.PendingFaults() }

// HoldWrites holds the next n commands of that name of projectors to a collection until
// [Embedded.HealStore]. They are carried out then, whether or not their client is still
// there.
func (e *Embedded) HoldWrites(command, collection string, n int) {
	e.Mongo.FailCommands(mongoemu.CommandFault{
		Commands: []string{command}, Collection: collection, AppName: projectorApp, Times: n, Hold: true,
	})
}

// WritesToHold is how many calls of HoldWrites have not met all their commands yet.
func (e *Embedded) WritesToHold() int { return e.Mongo.PendingFaults() }

// HoldRenames delays each of the next n renames of collections by projectors by d. They
// are carried out then, whether or not their client is still there.
func (e *Embedded) HoldRenames(n int, d time.Duration) {
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{"renameCollection"}, AppName: projectorApp, Times: n, Block: d})
}

// RenamesToHold is how many calls of HoldRenames have not met all their renames yet.
func (e *Embedded) RenamesToHold() int { return e.Mongo.PendingFaults() }

// LoseHistory drops all of the event store's oplog but its newest entry.
func (e *Embedded) LoseHistory() { e.Mongo.TruncateOplog(1) }

// FailStore fails every command of both services with that code until
// [Embedded.HealStore].
func (e *Embedded) FailStore(code int32) {
	e.Mongo.FailCommands(mongoemu.CommandFault{AppName: publisherApp, Times: -1, Code: code})
	e.Mongo.FailCommands(mongoemu.CommandFault{AppName: projectorApp, Times: -1, Code: code})
}

// HangStore delays every command of both services by ten seconds until
// [Embedded.HealStore]. Writes are then carried out, also for a client that has gone.
func (e *Embedded) HangStore() {
	e.Mongo.FailCommands(mongoemu.CommandFault{AppName: publisherApp, Times: -1, Block: 10 * time.Second})
	e.Mongo.FailCommands(mongoemu.CommandFault{AppName: projectorApp, Times: -1, Block: 10 * time.Second})
}

// HealStore ends what FailStore and HangStore began.
func (e *Embedded) HealStore() { e.Mongo.ClearFaults() }

// CommandsToStore counts the commands that the publishers and the projectors have
// sent.
func (e *Embedded) CommandsToStore() (publishers, projectors int) {
	return e.Mongo.Commands(publisherApp), e.Mongo.Commands(projectorApp)
}

// The names that the services give the store.
const (
	publisherApp = "penstock-publisher"
	projectorApp = "penstock-projector"
)

// ForbidReading refuses the projectors' queries for lack of rights, until
// [Embedded.HealStore].
func (e *Embedded) ForbidReading() {
	const unauthorized = 13
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{"find"}, AppName: projectorApp, Times: -1, Code: unauthorized})
}
