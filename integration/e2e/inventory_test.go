package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// Events that break the contract accumulate in the quarantine, and messages without an
// event in the dead-letter queue. Both services report their numbers with the rights of
// docs/install.md: a publisher may only send, a projector may only listen.
func TestQuarantineAndDeadLettersAreCounted(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own: policies that other brokers are not told")
	t.Parallel()
	sender := sbemu.Policy{Name: "publisher", Key: "c2VuZC1vbmx5", Send: true}
	listener := sbemu.Policy{Name: "projector", Key: "bGlzdGVuLW9ubHk=", Listen: true}
	backend := startWithPolicies(t, sender, listener)
	store := eventStore(t, backend.MongoURI())
	ctx, cancel := context.WithTimeout(t.Context(), backlogTimeout)
	defer cancel()

	const broken, strangers, othersRecords = 3, 4, 5
	w := shop.New(100, 7)
	if _, err := store.InsertMany(ctx, w.Events); err != nil {
		t.Fatal(err)
	}
	for i := range broken {
		if _, err := store.InsertOne(ctx, bson.D{{Key: "aggregateId", Value: fmt.Sprint("broken-", i)}, {Key: "eventType", Value: "T"}}); err != nil {
			t.Fatal(err)
		}
	}
	// Records of other streams, whose names sort before and after this one.
	others := store.Database().Client().Database(harness.StateDatabase).Collection("quarantine")
	for i := range othersRecords {
		stream := []string{"event", "events2"}[i%2]
		if _, err := others.InsertOne(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "stream", Value: stream}, {Key: "document", Value: i}}}}); err != nil {
			t.Fatal(err)
		}
	}

	publisher, projector := startPair(ctx, t, backend, harness.PipelineOptions{
		Projections:  w.Projections,
		PublisherEnv: []string{"AZURE_SERVICEBUS_CONNECTION_STRING=" + backend.Broker.ConnectionStringFor(sender)},
		ProjectorEnv: []string{
			"AZURE_SERVICEBUS_CONNECTION_STRING=" + backend.Broker.ConnectionStringFor(listener),
			"PENSTOCK_BACKLOG_INTERVAL=1s",
		},
	})
	projected := backlog{t: t, ctx: ctx, projector: projector}
	shows := func(name string, want float64) func(harness.Metrics) bool {
		return func(m harness.Metrics) bool { return m[name] != nil && m.Sum(name) == want }
	}
	projected.await("no dead letters in the beginning", shows("penstock_projector_dead_letters", 0))
	sendStrangers(ctx, t, backend.Broker.ConnectionString(), strangers)
	projected.await("dead letters", shows("penstock_projector_dead_letters", strangers))
	backlog{t: t, ctx: ctx, projector: publisher}.await("records in the quarantine", shows("penstock_publisher_quarantine_records", broken))
}

// sendStrangers sends messages without an event.
func sendStrangers(ctx context.Context, t *testing.T, connectionString string, count int) {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connectionString, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = client.Close(closing)
	}()
	sender, err := client.NewSender("events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		id, session := fmt.Sprint("stranger-", i), "stranger"
		if err := sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, SessionID: &session, Body: []byte("hello")}, nil); err != nil {
			t.Fatal(err)
		}
	}
}
