package sbemu_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func TestRules(t *testing.T) {
	cfg := sbemu.Config{Topics: []sbemu.Topic{{
		Name: "events",
		Subscriptions: []sbemu.Subscription{
			{Name: "all"},
			{Name: "users", Rules: []sbemu.Rule{{SQL: "aggregateType = 'User'"}}},
			{Name: "late", Rules: []sbemu.Rule{{SQL: "aggregateType IN ('User', 'Order') AND eventId >= 2"}}},
			{Name: "either", Rules: []sbemu.Rule{{SQL: "eventId = 1"}, {SQL: "sys.Label LIKE 'sp%'"}}},
			{Name: "correlated", Rules: []sbemu.Rule{{Correlation: &sbemu.Correlation{
				Subject: "special", Properties: map[string]any{"aggregateType": "Order"},
			}}}},
			{Name: "none", Rules: []sbemu.Rule{{SQL: "1=0"}}},
			{Name: "others", Rules: []sbemu.Rule{{SQL: "aggregateType <> 'User' AND NOT (eventId = 1 OR aggregateType = 'Other')"}}},
			{Name: "absent", Rules: []sbemu.Rule{{SQL: "NOT EXISTS(epoch) AND EXISTS(sys.Label)"}}},
			{Name: "system", Rules: []sbemu.Rule{{SQL: "sys.MessageId IN ('u1', 'x3') OR user.eventId = 2 AND sys.Label = 'special'"}}},
			{Name: "byid", Rules: []sbemu.Rule{{Correlation: &sbemu.Correlation{MessageID: "o1"}}}},
		},
	}}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")

		for _, m := range []struct {
			id, aggregateType, subject string
			eventID                    int64
		}{
			{"u1", "User", "plain", 1}, {"u2", "User", "plain", 2}, {"o1", "Order", "special", 1}, {"o2", "Order", "special", 2}, {"x3", "Other", "plain", 3},
		} {
			msg := message(m.id, "")
			msg.Subject = &m.subject
			msg.ApplicationProperties = map[string]any{"aggregateType": m.aggregateType, "eventId": m.eventID}

			if m.id == "o1" {
				msg.ApplicationProperties["epoch"] = int64(7)
			}

			must(t, s.SendMessage(e.ctx, msg, nil))
		}

		for sub, want := range map[string]string{
			"all": "[u1 u2 o1 o2 x3]", "users": "[u1 u2]", "late": "[u2 o2]", "either": "[u1 o1 o2]", "correlated": "[o1 o2]", "none": "[]",
			"others": "[o2]", "absent": "[u1 u2 o2 x3]", "system": "[u1 o2 x3]", "byid": "[o1]",
		} {
			counts, err := e.Counts("events/Subscriptions/" + sub)
			must(t, err)

			r, err := c.NewReceiverForSubscription("events", sub, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
			must(t, err)

			if got := fmt.Sprint(ids(e.receive(r, counts.Active))); got != want {
				t.Errorf("subscription %s has %s, want %s", sub, got, want)
			}
		}
	})
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()

	for name, cfg := range map[string]sbemu.Config{
		"rule": {Topics: []sbemu.Topic{{Name: "t", Subscriptions: []sbemu.Subscription{{Name: "s", Rules: []sbemu.Rule{{SQL: "a ="}}}}}}},
		"name": {Queues: []sbemu.Queue{{Name: "a b"}}},
		"lock": {Queues: []sbemu.Queue{{Name: "q", LockDuration: 1 << 60}}},
		"sub":  {Topics: []sbemu.Topic{{Name: "t", Subscriptions: []sbemu.Subscription{{Name: strings.Repeat("s", 51)}}}}},
		"long": {Queues: []sbemu.Queue{{Name: strings.Repeat("q", 261)}}},
		"key":  {Policies: []sbemu.Policy{{Name: "p"}}},
		"same": {Queues: []sbemu.Queue{{Name: "q"}, {Name: "Q"}}},

		"short window":    {Topics: []sbemu.Topic{{Name: "t", DuplicateDetectionWindow: time.Second}}},
		"long window":     {Queues: []sbemu.Queue{{Name: "q", DuplicateDetectionWindow: 8 * 24 * time.Hour}}},
		"many deliveries": {Queues: []sbemu.Queue{{Name: "q", MaxDeliveryCount: 2001}}},
		"in subscription": {Topics: []sbemu.Topic{{Name: "t", Subscriptions: []sbemu.Subscription{{Name: "s", MaxDeliveryCount: 2001}}}}},
	} {
		if _, err := sbemu.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}

	srv, err := sbemu.New(sbemu.Default())
	must(t, err)
	must(t, srv.Start())

	if err := srv.Start(); !errors.Is(err, sbemu.ErrStarted) {
		t.Error(err)
	}

	must(t, srv.Close())
}
