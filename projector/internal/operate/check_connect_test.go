package operate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/pkg/sbus"
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
