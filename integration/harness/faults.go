package harness

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// Only stand-ins can inject the faults of this file.

// Promote replaces the broker by another one with the same entities and without messages, at
// the same address. So does a failover of an alias of Service Bus (Geo-Disaster Recovery):
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-geo-dr
func (e *Embedded) Promote() error {
	address := e.Broker.Addr().String()
	if err := e.Broker.Close(); err != nil {
		return fmt.Errorf("close the former primary: %w", err)
	}
	promoted, err := sbemu.New(sbemu.Config{Address: address, Topics: []sbemu.Topic{e.topic}})
	if err == nil {
		err = promoted.Start()
	}
	if err != nil {
		return fmt.Errorf("start the promoted broker: %w", err)
	}
	e.Broker = promoted
	return nil
}

// RefuseLinks ends every link with that condition, and refuses new ones with it for d.
func (e *Embedded) RefuseLinks(d time.Duration, condition string) error {
	e.Broker.RefuseLinks(d, condition)
	return errors.Join(e.Broker.DetachLinks(embeddedTopic, condition), e.Broker.DetachLinks(e.SubscriptionPath(), condition))
}

// LoseSessionLocks ends the lock of every held session, as if it had expired, and counts
// them.
func (e *Embedded) LoseSessionLocks() (int, error) {
	sessions, err := e.Broker.Sessions(e.SubscriptionPath())
	if err != nil {
		return 0, fmt.Errorf("list the sessions: %w", err)
	}
	lost := 0
	for _, session := range sessions {
		// A session that was released in the meantime has no lock to lose.
		if session.Locked && e.Broker.LoseSessionLock(e.SubscriptionPath(), session.ID) == nil {
			lost++
		}
	}
	return lost, nil
}

// HoldWrites holds the projectors' next n commands of that name on a collection until
// [Embedded.HealStore]. The server then carries them out, even if their client has gone.
func (e *Embedded) HoldWrites(command, collection string, n int) {
	e.Mongo.FailCommands(mongoemu.CommandFault{
		Commands: []string{command}, Collection: collection, AppName: projectorApp, Times: n, Hold: true,
	})
}

// WritesToHold returns how many calls of HoldWrites still wait for some of their commands.
func (e *Embedded) WritesToHold() int { return e.Mongo.PendingFaults() }

// LoseHistory removes all entries of the event store's oplog except the newest.
func (e *Embedded) LoseHistory() { e.Mongo.TruncateOplog(1) }

// HangStore delays every command of both services by ten seconds, until
// [Embedded.HealStore]. Delayed writes are carried out, even if their client has gone.
func (e *Embedded) HangStore() {
	e.Mongo.FailCommands(mongoemu.CommandFault{AppName: publisherApp, Times: -1, Block: 10 * time.Second})
	e.Mongo.FailCommands(mongoemu.CommandFault{AppName: projectorApp, Times: -1, Block: 10 * time.Second})
}

// FailDocuments fails every write of these documents, as if their shard could not be reached,
// until [Embedded.HealStore].
func (e *Embedded) FailDocuments(collection string, ids []string) {
	const hostUnreachable = 6
	e.Mongo.FailDocuments(mongoemu.DocumentFault{Collection: collection, IDs: ids, Code: hostUnreachable})
}

// HealStore ends all faults of the store.
func (e *Embedded) HealStore() { e.Mongo.ClearFaults() }

// The application names by which the store knows the services.
const (
	publisherApp = "penstock-publisher"
	projectorApp = "penstock-projector"
)

// SlowStore delays every reply of MongoDB by d.
func (e *Embedded) SlowStore(d time.Duration) { e.Mongo.SetLatency(d) }

// Forbid refuses the projectors' commands of that name on a collection because of missing
// rights, until [Embedded.HealStore]. An empty collection stands for all.
func (e *Embedded) Forbid(command, collection string) {
	const unauthorized = 13
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{command}, Collection: collection, AppName: projectorApp, Times: -1, Code: unauthorized})
}
