package operate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func TestSubscriptionIsCheckedByItsProperties(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change   func(*admin.SubscriptionProperties)
		err      error
		want     string
		findings bool
	}{
		"good":        {nil, nil, "ok       subscription, properties: requires sessions", false},
		"no sessions": {func(p *admin.SubscriptionProperties) { p.RequiresSession = nil }, nil, "failed   subscription, properties: the subscription does not require sessions", true},
		"disabled":    {func(p *admin.SubscriptionProperties) { p.Status = to.Ptr(admin.EntityStatusReceiveDisabled) }, nil, "its status is ReceiveDisabled", true},
		"forwards":    {func(p *admin.SubscriptionProperties) { p.ForwardTo = to.Ptr("other") }, nil, "it forwards its messages", true},
		"deliveries":  {func(p *admin.SubscriptionProperties) { p.MaxDeliveryCount = to.Ptr(int32(3)) }, nil, "warning  subscription, properties: MaxDeliveryCount is 3", false},
		"endless": {func(p *admin.SubscriptionProperties) {
			p.DefaultMessageTimeToLive = to.Ptr("P10675199DT2H48M5.4775807S")
		}, nil, "ok       subscription, properties: requires sessions", false},
		"expires":     {func(p *admin.SubscriptionProperties) { p.DefaultMessageTimeToLive = to.Ptr("PT1M") }, nil, "warning  subscription, properties: its messages expire after PT1M", false},
		"absent":      {nil, fmt.Errorf("subscription zzz of topic events %w", sbus.ErrAbsent), "create it, or correct AZURE_SERVICEBUS_SUBSCRIPTION_NAME", true},
		"no right":    {nil, fmt.Errorf("%w: 401", sbus.ErrUnreadable), "warning  subscription, properties: not checked", false},
		"not reached": {nil, errors.New("no route"), "failed   subscription, properties: no route", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := admin.SubscriptionProperties{RequiresSession: to.Ptr(true), Status: to.Ptr(admin.EntityStatusActive), MaxDeliveryCount: to.Ptr(int32(10))}
			if test.change != nil {
				test.change(&p)
			}
			var r preflight.Report
			reportSubscription(&r, p, test.err)
			var out bytes.Buffer
			if err := r.Print(&out, preflight.Flags{}); errors.Is(err, cli.ErrFindings) != test.findings || !strings.Contains(out.String(), test.want) {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}

func TestSubscriptionIsCheckedByItsRules(t *testing.T) {
	t.Parallel()
	all, some := admin.RuleProperties{Name: "$Default", Filter: &admin.TrueFilter{}}, admin.RuleProperties{Name: "recent", Filter: &admin.SQLFilter{Expression: "eventId > 1"}}
	for name, test := range map[string]struct {
		rules    []admin.RuleProperties
		err      error
		want     string
		findings bool
	}{
		"default":     {[]admin.RuleProperties{all}, nil, "ok       subscription, rules: select every message", false},
		"SQL for all": {[]admin.RuleProperties{{Name: "all", Filter: &admin.SQLFilter{Expression: "1 = 1"}}}, nil, "ok       subscription, rules: ", false},
		"both":        {[]admin.RuleProperties{some, all}, nil, "ok       subscription, rules: ", false},
		"filters":     {[]admin.RuleProperties{some}, nil, "warning  subscription, rules: the subscription gets only the messages that its rules select: recent", false},
		"none":        {nil, nil, "failed   subscription, rules: the subscription has no rule", true},
		"not reached": {nil, errors.New("no route"), "failed   subscription, rules: no route", true},
	} {
		var r preflight.Report
		reportRules(&r, test.rules, test.err)
		var out bytes.Buffer
		if err := r.Print(&out, preflight.Flags{}); errors.Is(err, cli.ErrFindings) != test.findings || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %v\n%s", name, err, &out)
		}
	}
}

// A refusal fails also in an init container, and a broker that is away only delays the start.
func TestSubscriptionIsCheckedByAnAccept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err              error
		want             string
		findings, inInit bool
	}{
		"given":    {nil, "ok       subscription: requires sessions, and the credentials can receive from projector", false, false},
		"refused":  {&amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: "does not require sessions"}, "failed   subscription: projector gives no session: ", true, true},
		"disabled": {&amqp.Error{Condition: "com.microsoft:entity-disabled"}, "failed   subscription: projector gives no session: ", true, true},
		"away":     {errors.New("no route"), "failed   subscription: projector: no route", true, false},
	} {
		var r preflight.Report
		reportSessions(&r, "projector", test.err)
		var out bytes.Buffer
		err := r.Print(&out, preflight.Flags{})
		initErr := r.Print(io.Discard, preflight.Flags{Init: true})
		if errors.Is(err, cli.ErrFindings) != test.findings || errors.Is(initErr, cli.ErrFindings) != test.inInit || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %v, with --init %v\n%s", name, err, initErr, &out)
		}
	}
}

// The check of the owners fails if the service would refuse to start, and takes no name.
func TestCheckNamesTheOtherOwner(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := &config.Stores{ReadModels: db, State: db}
	e := &Environment{Projections: projectiontest.All(t, "projections: [{name: users, collection: users, on: {Created: {inc: {n: 1}}}}]")}
	check := func(subscription string) (report string, findings bool) {
		t.Helper()
		e.Config.ServiceBus.Subscription = subscription
		var r preflight.Report
		checkOwners(t.Context(), &r, s, e)
		var out bytes.Buffer
		findings = errors.Is(r.Print(&out, preflight.Flags{}), cli.ErrFindings)
		return out.String(), findings
	}
	const ok = "ok       owners: "
	if report, findings := check("orders"); findings || !strings.HasPrefix(report, ok) {
		t.Errorf("before the first start:\n%s", report)
	}
	if n, err := catalog.Owners(db).CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
		t.Errorf("the check has taken %d names: %v", n, err)
	}
	places, err := Owned(t.Context(), &e.Config, e.Projections, s)
	if err == nil {
		err = catalog.TakeNames(t.Context(), places, zerolog.Nop())
	}
	if err != nil {
		t.Fatal(err)
	}
	if report, findings := check("orders"); findings || !strings.HasPrefix(report, ok) {
		t.Errorf("of the owner:\n%s", report)
	}
	report, findings := check("invoices")
	if !findings || !strings.HasPrefix(report, "failed   owners: names belong to another pipeline") || !strings.Contains(report, `subscription: recorded "orders", now "invoices"`) || !strings.Contains(report, "projector owners release") {
		t.Fatalf("of another pipeline:\n%s", report)
	}
}
