package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// With the right to listen alone, the properties of a subscription cannot be read. The check
// finds out by an accept that a subscription has no sessions or is disabled. It keeps no
// session, and receives nothing.
func TestPreflightAcceptsASession(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own, with policies and subscriptions")
	t.Parallel()
	disabled := subscription
	disabled.Name, disabled.Disabled = "disabled", true
	empty := subscription
	empty.Name, empty.Rules = "empty", []sbemu.Rule{{Name: "none", SQL: "1=0"}}
	listener := sbemu.Policy{Name: "projector", Key: "bGlzdGVuLW9ubHk=", Listen: true}
	backend := startWith(t, sbemu.Config{
		Policies: []sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}, listener},
		Topics:   []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{subscription, empty, {Name: "nosess"}, disabled}}},
	})
	eventStore(t, backend.MongoURI())
	sendStrangers(t.Context(), t, backend.Broker.ConnectionString(), 1)
	for _, receiver := range []string{"amqp", "sdk"} {
		pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
			Programs: suite.services, Dir: t.TempDir(), Projections: shop.New(1, 63).Projections,
			ProjectorEnv: []string{"PENSTOCK_RECEIVER=" + receiver, "AZURE_SERVICEBUS_CONNECTION_STRING=" + backend.Broker.ConnectionStringFor(listener)},
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]struct {
			state, detail string
			status        int
		}{
			"projector": {"ok", "requires sessions, and the credentials can receive from projector", 0},
			"empty":     {"ok", "requires sessions, and the credentials can receive from empty", 0},
			"nosess":    {"failed", "does not require sessions", 1},
			"disabled":  {"failed", "is currently disabled", 1},
		} {
			out, err := pipeline.Projector(t.Context(), "check", "--connect", "--init", "--output=json", "--servicebus-subscription="+name)
			if err != nil {
				t.Fatal(err)
			}
			var lines []struct{ Check, State, Detail string }
			if err := json.Unmarshal(out.Stdout, &lines); err != nil || out.Status != want.status {
				t.Errorf("%s of %s: status %d, %v\n%s%s", receiver, name, out.Status, err, out.Stdout, out.Stderr)
			}
			for _, l := range lines {
				if l.Check == "subscription" && (l.State != want.state || !strings.Contains(l.Detail, want.detail)) ||
					l.Check == "subscription, properties" && l.State != "warning" {
					t.Errorf("%s of %s: %+v", receiver, name, l)
				}
			}
		}
	}
	const queue = "events/Subscriptions/projector"
	sessions, err := backend.Broker.Sessions(queue)
	if err != nil || len(sessions) != 1 || sessions[0].Locked {
		t.Errorf("after the checks the sessions are %+v, %v", sessions, err)
	}
	messages, err := backend.Broker.Messages(queue, 0, 2)
	if err != nil || len(messages) != 1 || messages[0].DeliveryCount != 0 {
		t.Errorf("after the checks the messages are %+v, %v", messages, err)
	}
}
