package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

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

// ErrLeftBehind says that a backend was closed, but could not remove everything in time.
var ErrLeftBehind = errors.New("the test's databases or topic are left behind")

// Close implements [Backend]: it deletes the topic and drops the collections. It sends no
// dropDatabase, because some servers lock every database for it, and other tests would wait. A
// projector that was killed in a transaction leaves it open, and a drop waits until the server
// ends the transaction, by default after 60 to 90 s. If the wait is longer than
// [ExternalOptions.CleanTimeout], the error is [ErrLeftBehind], and the next test can go on.
func (b *ExternalBackend) Close() error {
	limit := cmp.Or(b.external.options.CleanTimeout, requestTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	errs := []error{b.bus.Close(ctx), deleteTopic(ctx, b.external.admin, b.name)}
	databases := b.Databases()
	for _, name := range []string{databases.Events, databases.State, databases.ReadModels} {
		errs = append(errs, dropCollections(ctx, b.external.store.Database(name), limit))
	}
	err := errors.Join(errs...)
	switch {
	case err == nil:
		return nil
	case mongo.IsTimeout(err), ctx.Err() != nil:
		return fmt.Errorf("remove %s* within %s: %w: %w", b.name, limit, ErrLeftBehind, err)
	}
	return fmt.Errorf("remove what the test made: %w", err)
}

// dropCollections drops the collections of a database. No drop holds others up for longer than
// limit.
func dropCollections(ctx context.Context, db *mongo.Database, limit time.Duration) error {
	names, err := db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return err
	}
	for _, name := range names {
		drop := bson.D{{Key: "drop", Value: name}, {Key: "maxTimeMS", Value: limit.Milliseconds()}}
		if err := db.RunCommand(ctx, drop).Err(); err != nil {
			return err
		}
	}
	return nil
}
