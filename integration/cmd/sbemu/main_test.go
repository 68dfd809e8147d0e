package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/control"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDeclarations(t *testing.T) {
	t.Parallel()

	o := options{
		Record: 7,
		Topic: []string{
			"events:dedup=10m:partitioned=true:subscription=projector:sessions=true:lock=30s:max-deliveries=3:subscription=all",
			"filtered:record=9:max-message=1024:subscription=some:ttl=1h:filter=a = 'b:c' AND n > 1",
		},
		Queue: []string{"work:sessions=true:ttl=5m:dead-letter-expired=true"},
	}

	got, err := o.config()
	if err != nil {
		t.Fatal(err)
	}

	want := sbemu.Config{
		Topics: []sbemu.Topic{
			{
				Name: "events", DuplicateDetectionWindow: 10 * time.Minute, Partitioned: true, Record: 7,
				Subscriptions: []sbemu.Subscription{
					{Name: "projector", RequiresSession: true, LockDuration: 30 * time.Second, MaxDeliveryCount: 3},
					{Name: "all"},
				},
			},
			{
				Name: "filtered", MaxMessageSize: 1024, Record: 9,
				Subscriptions: []sbemu.Subscription{
					{Name: "some", DefaultTTL: time.Hour, Rules: []sbemu.Rule{{Name: "filter", SQL: "a = 'b:c' AND n > 1"}}},
				},
			},
		},
		Queues: []sbemu.Queue{{Name: "work", RequiresSession: true, DefaultTTL: 5 * time.Minute, DeadLetterExpired: true, Record: 7}},
	}

	if !reflect.DeepEqual(got, want) {
		t.Fatalf("configuration is\n%+v, want\n%+v", got, want)
	}

	if o := (options{}); o.Validate() != nil {
		t.Fatal("the defaults are refused")
	}
}

func TestMistakesAreAllTold(t *testing.T) {
	t.Parallel()

	var stderr bytes.Buffer

	err := run(t.Context(), []string{
		"--topic", "events:dedup=soon:nonsense=1", "--topic", "t:filter=1=1", "--queue", "a b", "--tls-address", ":0",
	}, io.Discard, &stderr)
	if !errors.Is(err, cli.ErrUsage) {
		t.Fatal(err)
	}

	for _, want := range []string{`value of dedup`, `"nonsense=1"`, "filter needs a subscription", `"a b" is no valid name`, "--tls-certificate"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not told:\n%s", want, stderr.String())
		}
	}
}

// TestRun runs the command as a process would, with the SDK and the control
// API, until it is told to stop.
func TestRun(t *testing.T) {
	t.Parallel()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	out, in := io.Pipe()
	done := make(chan error)

	go func() {
		done <- run(ctx, []string{"--address", "127.0.0.1:0", "--control-address", "127.0.0.1:0", "--record", "10"}, in, io.Discard)
	}()

	lines := make([]byte, 1024)

	n, err := out.Read(lines)
	check(t, err)

	address := strings.TrimSpace(strings.TrimPrefix(string(lines[:n]), "control: "))

	n, err = out.Read(lines)
	check(t, err)

	client, err := azservicebus.NewClientFromConnectionString(strings.TrimSpace(string(lines[:n])), nil)
	check(t, err)

	sender, err := client.NewSender("events", nil)
	check(t, err)

	id := "1"
	check(t, sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, SessionID: &id}, nil))

	ctl := control.NewClient(address, nil)

	accepted, err := ctl.Accepted(ctx, "events")
	check(t, err)

	if len(accepted) != 1 || accepted[0].MessageID != "1" {
		t.Fatalf("accepted %+v", accepted)
	}

	ctl.Close()
	check(t, client.Close(ctx))
	stop()
	check(t, <-done)
}

func check(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}
