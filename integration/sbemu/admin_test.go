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

// administer returns an administration client of the server. The client uses the default
// port, and the transport connects it to the server's.
func (e *env) administer(p sbemu.Policy) *admin.Client {
	e.t.Helper()

	h := httptest.NewTLSServer(e.AdminHandler())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
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

	// Declared properties are returned.
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

	long := strings.Repeat("x", 261)
	_, err = a.CreateTopic(e.ctx, long, nil)
	_, subErr := a.CreateSubscription(e.ctx, "new", long[:51], nil)
	_, ruleErr := a.CreateRule(e.ctx, "new", "picky", &admin.CreateRuleOptions{Name: pointer(long[:51])})

	for _, err := range []error{err, subErr, ruleErr} {
		if err == nil || !strings.Contains(err.Error(), "over the limit") {
			t.Error(err)
		}
	}

	// An update detaches the receiver, which the SDK handles by itself.
	_, err = a.UpdateSubscription(e.ctx, "new", "picky", admin.SubscriptionProperties{LockDuration: pointer("PT10S"), MaxDeliveryCount: pointer(int32(5))}, nil)
	must(t, err)

	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()

	if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || err != nil {
		t.Fatalf("receive over a detached link: %v, %v", ids(got), err)
	}

	// A refused update changes nothing.
	_, err = a.UpdateSubscription(e.ctx, "new", "picky", admin.SubscriptionProperties{LockDuration: pointer("PT10M")}, nil)
	if err == nil || !strings.Contains(err.Error(), "a lock lasts 5 seconds to 5 minutes") {
		t.Fatal(err)
	}

	_, err = a.UpdateTopic(e.ctx, "new", admin.TopicProperties{MaxMessageSizeInKilobytes: pointer(int64(-1))}, nil)
	if err == nil || !strings.Contains(err.Error(), "a size is not negative") {
		t.Fatal(err)
	}

	sub, err = a.GetSubscription(e.ctx, "new", "picky", nil)
	must(t, err)
	equal(t, "lock", *sub.LockDuration, "PT10S")

	topic, err = a.GetTopic(e.ctx, "new", nil)
	must(t, err)
	equal(t, "size", *topic.MaxMessageSizeInKilobytes, 256)

	_, err = a.DeleteTopic(e.ctx, "new", nil)
	must(t, err)
	code(t, e.sender(e.client(), "new").SendMessage(e.ctx, message("1", ""), nil), azservicebus.CodeNotFound)
}

// TestDeletedEntitiesRefuseTheirLinks: links that were attached before do not survive the
// deletion of their entity.
func TestDeletedEntitiesRefuseTheirLinks(t *testing.T) {
	t.Parallel()

	cfg := sbemu.Default()
	cfg.Queues = []sbemu.Queue{{Name: "q"}}
	cfg.Policies = []sbemu.Policy{{Name: "all", Key: "k", Manage: true}}
	e := socket(t, cfg)
	a := e.administer(cfg.Policies[0])
	at := time.Now().Add(time.Hour)

	for entity, remove := range map[string]func() error{
		"events": func() error { _, err := a.DeleteTopic(e.ctx, "events", nil); return err },
		"q":      func() error { _, err := a.DeleteQueue(e.ctx, "q", nil); return err },
	} {
		c := e.client()
		s := e.sender(c, entity)
		e.send(s, "a", "1")

		r, err := c.NewReceiverForQueue(entity, nil)
		if entity == "events" {
			r, err = c.NewReceiverForSubscription("events", "projector", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
		}

		must(t, err)

		_, err = r.PeekMessages(e.ctx, 1, nil)
		must(t, err)

		seqs, err := s.ScheduleMessages(e.ctx, []*azservicebus.Message{message("2", "a")}, at, nil)
		must(t, err)
		must(t, remove())

		_, err = s.ScheduleMessages(e.ctx, []*azservicebus.Message{message("3", "a")}, at, nil)
		code(t, err, azservicebus.CodeNotFound)
		code(t, s.CancelScheduledMessages(e.ctx, seqs, nil), azservicebus.CodeNotFound)

		_, err = r.PeekMessages(e.ctx, 1, nil)
		code(t, err, azservicebus.CodeNotFound)
	}
}
