package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/verify"
)

// ExternalBackend is one pipeline's share of an [External]: databases and a topic
// of its own.
type ExternalBackend struct {
	external *External
	name     string
	bus      *azservicebus.Client
	observer *observer
}

var _ Backend = (*ExternalBackend)(nil)

// Open makes an empty topic. MongoDB makes the databases at the first write. The caller
// closes the backend.
func (e *External) Open(ctx context.Context, o TopicOptions) (*ExternalBackend, error) {
	b := &ExternalBackend{external: e, name: e.name(e.opened.Add(1))}
	bus, err := azservicebus.NewClientFromConnectionString(e.options.ConnectionString, nil)
	if err != nil {
		return nil, fmt.Errorf("open the Service Bus client: %w", err)
	}
	b.bus = bus
	if err := createTopic(ctx, e.admin, b.name, o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if b.observer, err = newObserver(bus, b.name, externalObserver); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// MongoURI implements [Backend].
func (b *ExternalBackend) MongoURI() string { return b.external.options.MongoURI }

// Databases implements [Backend].
func (b *ExternalBackend) Databases() Databases {
	return Databases{Events: b.name + "-events", State: b.name + "-state", ReadModels: b.name + "-models"}
}

// Bus implements [Backend].
func (b *ExternalBackend) Bus() Bus {
	return Bus{ConnectionString: b.external.options.ConnectionString, Topic: b.name, Subscription: externalSubscription}
}

// MaxConnections implements [Backend].
func (b *ExternalBackend) MaxConnections() int { return b.external.options.MaxConnections }

// Published counts the messages that reached the topic's subscriptions. It does not count
// duplicates, which the broker drops.
func (b *ExternalBackend) Published() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return b.observer.count(ctx)
}

// Accepted returns the messages that reached the topic's subscriptions, in the topic's
// order. It does not have duplicates, which the broker drops.
func (b *ExternalBackend) Accepted() ([]verify.Accepted, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return b.observer.accepted(ctx)
}

// Backlog counts the messages of the pipeline's subscription.
func (b *ExternalBackend) Backlog() (Backlog, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	counts, err := b.external.admin.GetSubscriptionRuntimeProperties(ctx, b.name, externalSubscription, nil)
	switch {
	case err != nil:
		return Backlog{}, fmt.Errorf("count the messages of topic %s: %w", b.name, err)
	case counts == nil:
		return Backlog{}, fmt.Errorf("count the messages of topic %s: its subscription is gone", b.name)
	}
	return Backlog{Active: int(counts.ActiveMessageCount), DeadLettered: int(counts.DeadLetterMessageCount)}, nil
}

// Close implements [Backend]: it deletes the topic and drops the databases.
func (b *ExternalBackend) Close() error {
	// A projector that was killed in a transaction leaves it open. The drop of a database
	// waits until the server ends the transaction, by default after 60 s.
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
	defer cancel()
	errs := []error{b.bus.Close(ctx), deleteTopic(ctx, b.external.admin, b.name)}
	databases := b.Databases()
	for _, name := range []string{databases.Events, databases.State, databases.ReadModels} {
		errs = append(errs, b.external.store.Database(name).Drop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what the test made: %w", err)
	}
	return nil
}
