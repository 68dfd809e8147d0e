package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// TestStatusCountsTheSubscriptions checks that `publisher status` shows the messages of
// each subscription of the topic and of its dead-letter queue. If the credentials lack the
// right, it says which one. `projector check` reads the properties of a subscription with the
// same right.
func TestStatusCountsTheSubscriptions(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own: policies, and the administration API of the stand-in")
	t.Parallel()
	sender := sbemu.Policy{Name: "publisher", Key: "c2VuZC1vbmx5", Send: true}
	backend, address, trusted := startWithCertificate(t, sbemu.Config{
		Policies: []sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}, sender},
		Topics: []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{
			{Name: "projector", RequiresSession: true, LockDuration: 30 * time.Second},
			{Name: "audit", RequiresSession: true, LockDuration: 30 * time.Second},
		}}},
	})
	eventStore(t, backend.MongoURI())
	sendStrangers(t.Context(), t, backend.Broker.ConnectionString(), 3)

	env := func(policy, key string) []string {
		return []string{
			"SSL_CERT_FILE=" + trusted, "PENSTOCK_SERVICEBUS_TRANSPORT=websocket",
			"AZURE_SERVICEBUS_CONNECTION_STRING=Endpoint=sb://" + address + ";SharedAccessKeyName=" + policy + ";SharedAccessKey=" + key,
		}
	}
	status := func(policy, key string, args ...string) harness.Output {
		t.Helper()
		pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
			Programs: suite.services, Dir: t.TempDir(), PublisherEnv: env(policy, key),
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := pipeline.Publisher(t.Context(), append([]string{"status"}, args...)...)
		// The status is 1 because no publisher leads.
		if err != nil || out.Status != 1 {
			t.Fatalf("status %d, %v\n%s%s", out.Status, err, out.Stdout, out.Stderr)
		}
		return out
	}
	var found struct {
		Subscriptions []struct {
			Name                                     string
			Active, DeadLetters, TransferDeadLetters int
		}
		Unknown map[string]string
	}
	out := status(sbemu.DefaultPolicy, sbemu.DefaultKey, "--output=json")
	if err := json.Unmarshal(out.Stdout, &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Subscriptions) != 2 || found.Subscriptions[0].Name != "audit" || found.Subscriptions[0].Active != 3 || found.Subscriptions[1].Name != "projector" || found.Subscriptions[1].Active != 3 {
		t.Errorf("the status is\n%s%s", out.Stdout, out.Stderr)
	}
	if out := status(sbemu.DefaultPolicy, sbemu.DefaultKey); !strings.Contains(string(out.Stdout), "3 active, 0 dead letters, 0 transfer dead letters") {
		t.Errorf("the table is\n%s", out.Stdout)
	}
	refused := status(sender.Name, sender.Key)
	if text := string(refused.Stdout); !strings.Contains(text, "that needs the role Azure Service Bus Data Owner, or the claim Manage") {
		t.Errorf("with the right to send alone it is\n%s", text)
	}
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Programs: suite.services, Dir: t.TempDir(), Projections: []byte(countsProjection), ProjectorEnv: env(sbemu.DefaultPolicy, sbemu.DefaultKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	for subscription, says := range map[string]string{
		"projector": "ok       subscription, rules: select every message", "absent": "create it, or correct AZURE_SERVICEBUS_SUBSCRIPTION_NAME",
	} {
		out, err := pipeline.Projector(t.Context(), "check", "--connect", "--servicebus-subscription="+subscription)
		if err != nil || !strings.Contains(string(out.Stdout), says) {
			t.Errorf("%s: %v\n%s%s", subscription, err, out.Stdout, out.Stderr)
		}
	}
}
