package e2e_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// subscription is the projector's subscription of a topic.
var subscription = sbemu.Subscription{Name: "projector", RequiresSession: true, LockDuration: 30 * time.Second}

// startWithPolicies starts the stand-ins, with more policies on the broker. The first
// policy allows everything, and the backend uses it.
func startWithPolicies(t *testing.T, policies ...sbemu.Policy) *harness.Embedded {
	t.Helper()
	return startWith(t, sbemu.Config{
		Policies: append([]sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}}, policies...),
		Topics:   []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{subscription}}},
	})
}

// startWithTopics starts the stand-ins, the broker with these topics.
func startWithTopics(t *testing.T, names ...string) *harness.Embedded {
	t.Helper()
	var topics []sbemu.Topic
	for _, name := range names {
		topics = append(topics, sbemu.Topic{Name: name, DuplicateDetectionWindow: 10 * time.Minute, Subscriptions: []sbemu.Subscription{subscription}})
	}
	return startWith(t, sbemu.Config{Topics: topics})
}

// startWith starts the stand-ins. They stop at the end of the test.
func startWith(t *testing.T, c sbemu.Config) *harness.Embedded {
	t.Helper()
	broker, err := sbemu.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	return &harness.Embedded{Mongo: mongoemutest.Start(t, mongoemu.Config{}), Broker: broker}
}

// eventStore makes an empty collection of events with the index that publishers need.
func eventStore(t *testing.T, uri string) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	store := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	if _, err := store.Indexes().CreateOne(t.Context(), workload.Index()); err != nil {
		t.Fatal(err)
	}
	return store
}

// awaitHolds polls until the condition holds.
func awaitHolds(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
	defer cancel()
	for begun := time.Now(); !holds(); {
		pause := pollInterval()
		if isVirtual(t) {
			// Waiting costs nothing there, and looking does.
			pause = min(pause+time.Since(begun)/10, 250*time.Millisecond)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, settleTimeout())
		}
	}
}
