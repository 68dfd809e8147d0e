package harness

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// The faults of this file need several steps. The stand-ins themselves have the others.

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

// ProjectorApp is the name by which the event store knows the projectors.
const ProjectorApp = "penstock-projector"

// Forbid refuses the projectors' commands of that name on a collection because of missing
// rights, until the store's faults are cleared. An empty collection stands for all.
func (e *Embedded) Forbid(command, collection string) {
	const unauthorized = 13
	e.Mongo.FailCommands(mongoemu.CommandFault{Commands: []string{command}, Collection: collection, AppName: ProjectorApp, Times: -1, Code: unauthorized})
}
