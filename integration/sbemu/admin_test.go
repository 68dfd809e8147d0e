package sbemu_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// administer returns an administration client of the server. It is told the
// default port, and connected to another.
func (e *env) administer(p sbemu.Policy) *admin.Client {
	e.t.Helper()

	h := httptest.NewTLSServer(e.AdminHandler())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificate is for another name
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, h.Listener.Addr().String())
		},
	}

	e.t.Cleanup(func() {
		transport.CloseIdleConnections()
		h.Close()
	})

	c, err := admin.NewClientFromConnectionString(
		"Endpoint=sb://sbemu.test/;SharedAccessKeyName="+p.Name+";SharedAccessKey="+p.Key,
		&admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	must(e.t, err)

	return c
}

func TestAdministration(t *testing.T) {
	t.Parallel()

	cfg := sbemu.Default()
	cfg.Policies = []sbemu.Policy{{Name: "all", Key: "k", Manage: true}, {Name: "send", Key: "s", Send: true}}
	e := socket(t, cfg)
	a := e.administer(cfg.Policies[0])

	// What was declared is described.
	sub, err := a.GetSubscription(e.ctx, "events", "projector", nil)
	must(t, err)
	equal(t, "declared lock", *sub.LockDuration, "PT30S")
	equal(t, "declared sessions", *sub.RequiresSession, true)

	topic, err := a.GetTopic(e.ctx, "events", nil)
	must(t, err)
	equal(t, "declared duplicate detection", *topic.RequiresDuplicateDetection, true)

	_, err = e.administer(cfg.Policies[1]).GetTopic(e.ctx, "events", nil)
	if err == nil || !strings.Contains(err.Error(), "Manage,EntityRead claims required") {
		t.Fatal(err)
	}

	// A subscription with a rule that has an action.
	_, err = a.CreateTopic(e.ctx, "new", nil)
	must(t, err)
	_, err = a.CreateSubscription(e.ctx, "new", "picky", &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
		DefaultRule: &admin.RuleProperties{
			Name:   "users",
			Filter: &admin.SQLFilter{Expression: "aggregateType = @type", Parameters: map[string]any{"@type": "User"}},
			Action: &admin.SQLAction{Expression: "SET picked = 'yes'; REMOVE aggregateType"},
		},
	}})
	must(t, err)

	c := e.client()
	s := e.sender(c, "new")

	for _, kind := range []string{"User", "Order"} {
		m := message(kind, "")
		m.ApplicationProperties = map[string]any{"aggregateType": kind}
		must(t, s.SendMessage(e.ctx, m, nil))
	}

	r, err := c.NewReceiverForSubscription("new", "picky", nil)
	must(t, err)

	picked := e.receive(r, 1)[0]
	equal(t, "picked", picked.MessageID, "User")
	equal(t, "properties", fmt.Sprint(picked.ApplicationProperties), "map[picked:yes]")

	runtime, err := a.GetSubscriptionRuntimeProperties(e.ctx, "new", "picky", nil)
	must(t, err)
	equal(t, "active messages", runtime.ActiveMessageCount, 1)

	_, err = a.CreateRule(e.ctx, "new", "picky", &admin.CreateRuleOptions{Name: pointer("bad"), Filter: &admin.SQLFilter{Expression: "a ="}})
	if err == nil || !strings.Contains(err.Error(), "invalid filter expression") {
		t.Fatal(err)
	}

	// An update detaches the receiver, which the SDK does not mind.
	_, err = a.UpdateSubscription(e.ctx, "new", "picky", admin.SubscriptionProperties{LockDuration: pointer("PT10S"), MaxDeliveryCount: pointer(int32(5))}, nil)
	must(t, err)

	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()

	if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || err != nil {
		t.Fatalf("receive over a detached link: %v, %v", ids(got), err)
	}

	_, err = a.DeleteTopic(e.ctx, "new", nil)
	must(t, err)
	code(t, e.sender(e.client(), "new").SendMessage(e.ctx, message("1", ""), nil), azservicebus.CodeNotFound)
}
