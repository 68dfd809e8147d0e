package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// A projector counts the sessions that have messages, including those that it holds. The
// number rises while the broker gives sessions out slowly, and falls to zero when all messages
// are settled. A dropped connection does not fail a count. Both services report what is set
// aside: the quarantine has the events that break the contract, the dead-letter queue the
// messages without an event. All of it works with the rights of docs/install.md: a publisher
// may only send, a projector may only listen.
func TestBacklogQuarantineAndDeadLettersAreCounted(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own: policies and latency that other brokers are not told")
	t.Parallel()
	sender := sbemu.Policy{Name: "publisher", Key: "c2VuZC1vbmx5", Send: true}
	listener := sbemu.Policy{Name: "projector", Key: "bGlzdGVuLW9ubHk=", Listen: true}
	backend := startWithPolicies(t, sender, listener)
	store := eventStore(t, backend.MongoURI())
	// Its sessions pass through two slots one after the other. On a busy machine each takes
	// seconds.
	w := shop.New(300, 31)
	ctx, cancel := context.WithTimeout(t.Context(), backlogTimeout)
	defer cancel()
	const broken, strangers, othersRecords = 3, 4, 5
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
			"PENSTOCK_SESSIONS=2", "PENSTOCK_BACKLOG_INTERVAL=1s",
		},
	})
	shows := func(name string, want float64) func(harness.Metrics) bool {
		return func(m harness.Metrics) bool { return m[name] != nil && m.Sum(name) == want }
	}
	b := backlog{t: t, ctx: ctx, projector: projector}
	b.await("no session in the beginning", func(m harness.Metrics) bool { return b.shows(m, 0, 0) })
	b.await("no dead letters in the beginning", shows("penstock_projector_dead_letters", 0))

	// Each session costs the projector's two slots several round trips.
	backend.Broker.SetLatency(20*time.Millisecond, 20*time.Millisecond)
	if _, err := store.InsertMany(ctx, w.Events); err != nil {
		t.Fatal(err)
	}
	b.await("a backlog", func(m harness.Metrics) bool { return b.shows(m, 20, w.Aggregates()) })

	backend.Broker.SetLatency(0, 0)
	counted := b.metrics().Sum(countsTotal, "result", "ok")
	if backend.Broker.DropConnections(nil) == 0 {
		t.Error("there was no connection to drop")
	}
	b.await("more counts after the connections were dropped", func(m harness.Metrics) bool {
		return m.Sum(countsTotal, "result", "ok") > counted
	})
	b.await("no session in the end", func(m harness.Metrics) bool {
		left, err := backend.Backlog()
		return err == nil && left.Active == 0 && b.shows(m, 0, 0)
	})
	models := store.Database().Client().Database(harness.ReadModelsDatabase)
	report, err := verify.ReadModels(ctx, store, models, w.Oracle, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Errorf("%d of %d read models are right:\n%s", report.Right, report.Expected, strings.Join(report.Findings, "\n"))
	}
	m := b.metrics()
	if failed := m.Sum(countsTotal, "result", "failed"); failed > 0 {
		t.Errorf("%v counts have failed", failed)
	}
	if limit := m.Sum("penstock_projector_backlog_sessions_limit"); limit != 5000 {
		t.Errorf("the limit is %v", limit)
	}
	if slots := m.Sum("penstock_projector_session_slots"); slots != 2 {
		t.Errorf("there are %v slots", slots)
	}
	for i := range broken {
		if _, err := store.InsertOne(ctx, bson.D{{Key: "aggregateId", Value: fmt.Sprint("broken-", i)}, {Key: "eventType", Value: "T"}}); err != nil {
			t.Fatal(err)
		}
	}
	sendStrangers(ctx, t, backend.Broker.ConnectionString(), strangers)
	b.await("dead letters", shows("penstock_projector_dead_letters", strangers))
	backlog{t: t, ctx: ctx, projector: publisher}.await("records in the quarantine", shows("penstock_publisher_quarantine_records", broken))
}

const (
	backlogTimeout = 3 * time.Minute
	countsTotal    = "penstock_projector_backlog_counts_total"
)

// backlog reads the number that a projector counts.
type backlog struct {
	t         *testing.T
	ctx       context.Context //nolint:containedctx // it bounds all waits of a test
	projector *harness.Process
}

func (b backlog) metrics() harness.Metrics {
	b.t.Helper()
	m, err := b.projector.Metrics(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// shows reports whether the projector has a number, and the number is in the range.
func (b backlog) shows(m harness.Metrics, least, most int) bool {
	b.t.Helper()
	const name = "penstock_projector_backlog_sessions"
	if m[name] == nil {
		return false
	}
	return m.Sum(name) >= float64(least) && m.Sum(name) <= float64(most)
}

// await polls until the condition holds.
func (b backlog) await(what string, holds func(harness.Metrics) bool) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		m := b.metrics()
		if holds(m) {
			return
		}
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("%s: not within %s", what, backlogTimeout)
		}
	}
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
