package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// Rules of other subscriptions select events by the subject. If the publisher has a
// CloudEvents source, they can also select by CloudEvents attributes. docs/subscribers.md
// has these rules.
func TestRulesOfOtherSubscriptionsSelectEvents(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own: subscriptions with rules")
	t.Parallel()
	rules := map[string]sbemu.Rule{
		"by-subject": {Correlation: &sbemu.Correlation{Subject: "UserDeletedEvent"}},
		"by-sql":     {SQL: "sys.Label LIKE 'User%' AND eventId > 1"},
		"by-type":    {SQL: "[cloudEvents:type] = 'OrderPlacedEvent' AND [cloudEvents:source] = '/shop/events'"},
		"cloudevent": {Correlation: &sbemu.Correlation{Properties: map[string]any{"cloudEvents:specversion": "1.0", "cloudEvents:subject": "user-1"}}},
	}
	topic := sbemu.Topic{Name: "events"}
	for name, rule := range rules {
		topic.Subscriptions = append(topic.Subscriptions, sbemu.Subscription{Name: name, Rules: []sbemu.Rule{rule}, LockDuration: 30 * time.Second})
	}
	backend := startWith(t, sbemu.Config{Topics: []sbemu.Topic{topic}})
	store := eventStore(t, backend.MongoURI())
	for _, ev := range []struct {
		aggregate, eventType string
		id                   int64
	}{
		{"user-1", "UserRegisteredEvent", 1}, {"order-1", "OrderPlacedEvent", 1}, {"user-1", "UserEmailUpdatedEvent", 2},
		{"user-2", "UserRegisteredEvent", 1}, {"user-1", "UserDeletedEvent", 3},
	} {
		if _, err := store.InsertOne(t.Context(), bson.D{
			{Key: "aggregateId", Value: ev.aggregate}, {Key: "eventId", Value: ev.id}, {Key: "eventType", Value: ev.eventType}, {Key: "timestamp", Value: time.Now()},
		}); err != nil {
			t.Fatal(err)
		}
	}
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Programs: suite.services, Dir: t.TempDir(), PublisherEnv: []string{"PENSTOCK_CLOUDEVENTS_SOURCE=/shop/events"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pipeline.Kill)
	if _, err := pipeline.StartPublisher("publisher"); err != nil {
		t.Fatal(err)
	}
	wanted := map[string][]string{
		"by-subject": {"user-1/3"}, "by-sql": {"user-1/2", "user-1/3"}, "by-type": {"order-1/1"}, "cloudevent": {"user-1/1", "user-1/2", "user-1/3"},
	}
	awaitMessages(t, backend, wanted)

	// Events that are sent again have the same attributes. This topic detects no duplicates.
	out, err := pipeline.Publisher(t.Context(), "republish", "--aggregate=user-1", "--yes")
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != 0 {
		t.Fatalf("republish: status %d\n%s%s", out.Status, out.Stdout, out.Stderr)
	}
	for name, ids := range wanted {
		if name != "by-type" {
			wanted[name] = slices.Sorted(slices.Values(append(ids, ids...)))
		}
	}
	awaitMessages(t, backend, wanted)
}

// awaitMessages waits until the subscriptions have the messages with these ids, in any order.
func awaitMessages(t *testing.T, backend *harness.Embedded, wanted map[string][]string) {
	t.Helper()
	for name, want := range wanted {
		awaitHolds(t, fmt.Sprintf("the messages %v of subscription %s", want, name), func() bool {
			messages, err := backend.Broker.Messages("events/Subscriptions/"+name, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range messages {
				got = append(got, m.MessageID)
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
}
