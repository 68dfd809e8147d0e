package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
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
	backend := startWith(t, sbemu.Config{
		Policies: []sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}, sender, listener},
		Topics:   []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{subscription}}},
	})
	// Its sessions pass through two slots one after the other. On a busy machine each takes
	// seconds.
	w := shop.New(300, 31)
	const broken, strangers, othersRecords = 3, 4, 5
	// Records of other streams, whose names sort before and after this one.
	s := newScenarioOver(t, w, backend)
	others := s.state.Collection("quarantine")
	for i := range othersRecords {
		stream := []string{"event", "events2"}[i%2]
		if _, err := others.InsertOne(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "stream", Value: stream}, {Key: "document", Value: i}}}}); err != nil {
			t.Fatal(err)
		}
	}
	s.stored()
	s.env["publisher-0"] = []string{"AZURE_SERVICEBUS_CONNECTION_STRING=" + backend.Broker.ConnectionStringFor(sender)}
	s.env["projector-0"] = []string{
		"AZURE_SERVICEBUS_CONNECTION_STRING=" + backend.Broker.ConnectionStringFor(listener),
		"PENSTOCK_SESSIONS=2", "PENSTOCK_BACKLOG_INTERVAL=1s", "PENSTOCK_BEHIND_AFTER=1s",
	}
	s.start(1, 1)
	const sessions, counts = "penstock_projector_backlog_sessions", "penstock_projector_backlog_counts_total"
	shows := func(what, name string, least, most int) {
		t.Helper()
		s.await(what, func() bool {
			for _, process := range s.started {
				if m := s.scrape(process); m[name] != nil {
					return m.Sum(name) >= float64(least) && m.Sum(name) <= float64(most)
				}
			}
			return false
		})
	}
	shows("no session in the beginning", sessions, 0, 0)
	shows("no dead letters in the beginning", "penstock_projector_dead_letters", 0, 0)

	// Each session costs the projector's two slots several round trips.
	backend.Broker.SetLatency(20*time.Millisecond, 20*time.Millisecond)
	s.insert(w.Events...)
	shows("a backlog", sessions, 20, w.Aggregates())
	s.await("a status that names the backlog", func() bool {
		stdout, _ := s.projectorCommand(0, "status")
		return strings.Contains(stdout, "behind: events have waited for up to ") && strings.Contains(stdout, " with messages, events waited up to ")
	})

	backend.Broker.SetLatency(0, 0)
	counted := s.metric("projector", counts, "result", "ok")
	if backend.Broker.DropConnections(nil) == 0 {
		t.Error("there was no connection to drop")
	}
	s.await("more counts after the connections were dropped", func() bool { return s.metric("projector", counts, "result", "ok") > counted })
	s.awaitReadModels()
	shows("no session in the end", sessions, 0, 0)
	for name, want := range map[string]float64{"penstock_projector_backlog_sessions_limit": 5000, "penstock_projector_session_slots": 2} {
		if got := s.metric("projector", name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// A count that was under way may fail with its connection; the next one dials again.
	if failed := s.metric("projector", counts, "result", "failed"); failed > 1 {
		t.Errorf("%v counts have failed; the dropped connection explains one", failed)
	}
	for i := range broken {
		if _, err := s.events.InsertOne(t.Context(), bson.D{{Key: "aggregateId", Value: fmt.Sprint("broken-", i)}, {Key: "eventType", Value: "T"}}); err != nil {
			t.Fatal(err)
		}
	}
	sendStrangers(t.Context(), t, backend.Broker.ConnectionString(), strangers)
	shows("dead letters", "penstock_projector_dead_letters", strangers, strangers)
	shows("records in the quarantine", "penstock_publisher_quarantine_records", broken, broken)
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
