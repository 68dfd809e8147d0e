package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// With the right to manage, the check reads the properties and the rules of the subscription.
func TestPreflightReadsTheSubscription(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own, with the administration API of the stand-in")
	t.Parallel()
	filtered, expiring := subscription, subscription
	filtered.Name = "filtered"
	expiring.Name, expiring.DefaultTTL = "expiring", time.Minute
	backend, address, trusted := startWithCertificate(t, sbemu.Config{
		Policies: []sbemu.Policy{{Name: sbemu.DefaultPolicy, Key: sbemu.DefaultKey, Manage: true}},
		Topics:   []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{subscription, filtered, expiring}}},
	})
	eventStore(t, backend.MongoURI())
	connection := "Endpoint=sb://" + address + ";SharedAccessKeyName=" + sbemu.DefaultPolicy + ";SharedAccessKey=" + sbemu.DefaultKey
	filter(t, connection, trusted, filtered.Name, "eventId > 1")
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Programs: suite.services, Dir: t.TempDir(), Projections: shop.New(1, 63).Projections,
		ProjectorEnv: []string{
			"SSL_CERT_FILE=" + trusted, "PENSTOCK_SERVICEBUS_TRANSPORT=websocket",
			"AZURE_SERVICEBUS_CONNECTION_STRING=" + connection,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ check, state, text string }{
		"projector": {"subscription, rules", "ok", "select every message"},
		"filtered":  {"subscription, rules", "warning", "its rules select: filtering"},
		"expiring":  {"subscription, properties", "warning", "its messages expire after PT"},
		"absent":    {"subscription, properties", "failed", "create it, or correct AZURE_SERVICEBUS_SUBSCRIPTION_NAME"},
	} {
		out, err := pipeline.Projector(t.Context(), "check", "--connect", "--output=json", "--servicebus-subscription="+name)
		if err != nil {
			t.Fatal(err)
		}
		var lines []struct{ Check, State, Detail, Remedy string }
		if err := json.Unmarshal(out.Stdout, &lines); err != nil {
			t.Fatalf("%s: %v\n%s%s", name, err, out.Stdout, out.Stderr)
		}
		found := false
		for _, l := range lines {
			found = found || l.Check == want.check && l.State == want.state && strings.Contains(l.Detail+l.Remedy, want.text)
		}
		if !found {
			t.Errorf("%s: the report has no %+v\n%s", name, want, out.Stdout)
		}
	}
}

// filter replaces the rule of a subscription by one with an SQL filter. The file trusted has the
// certificate of the administration API.
func filter(t *testing.T, connectionString, trusted, subscription, sql string) {
	t.Helper()
	certificate, err := os.ReadFile(trusted)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := admin.NewClientFromConnectionString(connectionString, &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateRule(t.Context(), "events", subscription, &admin.CreateRuleOptions{Name: to.Ptr("filtering"), Filter: &admin.SQLFilter{Expression: sql}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteRule(t.Context(), "events", subscription, "$Default", nil); err != nil {
		t.Fatal(err)
	}
}
