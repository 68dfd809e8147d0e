package harness

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// The entities of the embedded broker.
const (
	embeddedTopic        = "events"
	embeddedSubscription = "projector"
)

// EmbeddedOptions configure the stand-ins. The zero value is a broker and a store as a
// small production has them.
type EmbeddedOptions struct {
	// Latency is added to every frame to and from the broker, each way.
	Latency time.Duration
	// The topic remembers message ids for 10 minutes by default.
	TopicOptions
	// Record is how many accepted messages [Embedded.Accepted] can return.
	Record int
	// MongoListener and BrokerListener accept the connections; nil means ports of the
	// loopback interface.
	MongoListener, BrokerListener net.Listener
	// MoreSubscriptions are session-enabled subscriptions beside the services' own.
	MoreSubscriptions []string
}

// Embedded is a backend of the two stand-ins, which run in this process and listen on
// loopback sockets.
type Embedded struct {
	// Mongo and Broker are the stand-ins themselves. Their methods inject faults.
	Mongo  *mongoemu.Server
	Broker *sbemu.Server
	topic  sbemu.Topic
}

var _ Backend = (*Embedded)(nil)

// StartEmbedded starts both stand-ins. The caller closes the backend.
func StartEmbedded(o EmbeddedOptions) (*Embedded, error) {
	topic := sbemu.Topic{Name: embeddedTopic, DuplicateDetectionWindow: 10 * time.Minute, Record: o.Record}
	if o.DuplicateDetectionWindow != 0 {
		topic.DuplicateDetectionWindow = max(0, o.DuplicateDetectionWindow)
	}
	for _, name := range append([]string{embeddedSubscription}, o.MoreSubscriptions...) {
		topic.Subscriptions = append(topic.Subscriptions, sbemu.Subscription{
			Name: name, RequiresSession: true, LockDuration: lockDuration, DeadLetterExpired: true,
		})
	}
	broker, err := sbemu.New(sbemu.Config{Listener: o.BrokerListener, Topics: []sbemu.Topic{topic}})
	if err != nil {
		return nil, fmt.Errorf("configure the broker: %w", err)
	}
	if err := broker.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	broker.SetLatency(o.Latency, o.Latency)
	store, err := mongoemu.New(mongoemu.Config{Listener: o.MongoListener})
	if err == nil {
		err = store.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the event store: %w", err), broker.Close())
	}
	return &Embedded{Mongo: store, Broker: broker, topic: topic}, nil
}

// MongoURI implements [Backend].
func (e *Embedded) MongoURI() string { return e.Mongo.URI() }

// Bus implements [Backend].
func (e *Embedded) Bus() Bus {
	return Bus{
		ConnectionString: e.Broker.ConnectionString(),
		Topic:            embeddedTopic, Subscription: embeddedSubscription,
	}
}

// Databases implements [Backend]. The store belongs to the pipeline alone.
func (e *Embedded) Databases() Databases {
	return Databases{Events: EventsDatabase, State: StateDatabase, ReadModels: ReadModelsDatabase}
}

// MaxConnections implements [Backend]. The stand-in has no bound.
func (e *Embedded) MaxConnections() int { return 0 }

// Close implements [Backend].
func (e *Embedded) Close() error { return errors.Join(e.Broker.Close(), e.Mongo.Close()) }

// SubscriptionPath returns the name of the subscription among the broker's queues.
func (e *Embedded) SubscriptionPath() string {
	return embeddedTopic + "/Subscriptions/" + embeddedSubscription
}

// TopicCounts returns how many distinct messages the topic accepted, and how many it
// dropped as duplicates.
func (e *Embedded) TopicCounts() (accepted, duplicates int) {
	totals, err := e.Broker.Totals(embeddedTopic)
	if err != nil {
		return 0, 0
	}
	return int(totals.Accepted), int(totals.Duplicates)
}

// Published counts the messages that the topic accepted and did not drop as
// duplicates.
func (e *Embedded) Published() (int, error) {
	totals, err := e.Broker.Totals(embeddedTopic)
	if err != nil {
		return 0, fmt.Errorf("count what the topic accepted: %w", err)
	}
	return int(totals.Accepted), nil
}

// Accepted returns the messages that the topic accepted, in its order, including those that
// it dropped as duplicates.
func (e *Embedded) Accepted() ([]verify.Accepted, error) {
	recorded, err := e.Broker.Accepted(embeddedTopic)
	if err != nil {
		return nil, fmt.Errorf("read what the topic accepted: %w", err)
	}
	accepted := make([]verify.Accepted, 0, len(recorded))
	for _, m := range recorded {
		aggregateID, eventID, err := parseMessageID(m.MessageID)
		if err != nil {
			return nil, err
		}
		accepted = append(accepted, verify.Accepted{
			MessageID: m.MessageID, SessionID: m.SessionID, AggregateID: aggregateID, EventID: eventID, Epoch: m.Epoch, At: m.AcceptedAt,
		})
	}
	return accepted, nil
}

// Backlog counts the messages of the pipeline's subscription.
func (e *Embedded) Backlog() (Backlog, error) {
	counts, err := e.Broker.Counts(e.SubscriptionPath())
	if err != nil {
		return Backlog{}, fmt.Errorf("count the subscription's messages: %w", err)
	}
	return Backlog{Active: counts.Active, DeadLettered: counts.DeadLettered}, nil
}
