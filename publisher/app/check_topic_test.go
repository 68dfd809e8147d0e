package app

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

func TestTopicIsCheckedByItsProperties(t *testing.T) {
	t.Parallel()
	good := func() topicView {
		return topicView{
			properties: admin.TopicProperties{
				Status: to.Ptr(admin.EntityStatusActive), RequiresDuplicateDetection: to.Ptr(true),
				DuplicateDetectionHistoryTimeWindow: to.Ptr("PT10M"), MaxSizeInMegabytes: to.Ptr(int32(1024)),
			},
			subscriptions: []string{"projector"},
		}
	}
	for name, test := range map[string]struct {
		change   func(*topicView)
		want     string
		findings bool
	}{
		"good":          {func(*topicView) {}, "ok       topic, properties: detects duplicates within PT10M", false},
		"disabled":      {func(v *topicView) { v.properties.Status = to.Ptr(admin.EntityStatusSendDisabled) }, "failed   topic, properties: the topic's status is SendDisabled", true},
		"full":          {func(v *topicView) { v.size = 900 << 20 }, "warning  topic, properties: the topic has reached 88 % of its size limit", false},
		"no duplicates": {func(v *topicView) { v.properties.RequiresDuplicateDetection = nil }, "warning  topic, properties: the topic does not detect duplicates", false},
		"no rights":     {func(v *topicView) { v.err = sbus.ErrUnreadable }, "warning  topic, properties: not checked", false},
		"absent":        {func(v *topicView) { v.err = fmt.Errorf("read properties of topic zzz: it %w", sbus.ErrAbsent) }, "create it, or correct AZURE_SERVICEBUS_TOPIC_NAME", true},
		"not reached":   {func(v *topicView) { v.err = errors.New("no route") }, "failed   topic, properties: no route", true},
		"lonely":        {func(v *topicView) { v.subscriptions = nil }, "warning  topic, subscriptions: the topic has no subscription", false},
		"no sessions":   {func(v *topicView) { v.unordered = v.subscriptions }, "warning  topic, subscriptions: no subscription requires sessions: projector", false},
		"some":          {func(v *topicView) { v.unordered, v.subscriptions = []string{"audit"}, []string{"audit", "projector"} }, "ok       topic, subscriptions: 2; without sessions, and so without order: audit", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := good()
			test.change(&v)
			var r preflight.Report
			reportTopic(&r, v)
			var out bytes.Buffer
			err := r.Print(&out, preflight.Flags{})
			if errors.Is(err, cli.ErrFindings) != test.findings || !strings.Contains(out.String(), test.want) {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}
