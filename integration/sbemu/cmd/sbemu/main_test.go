package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// asCommand is the variable that makes the test binary run as the command.
const asCommand = "SBEMU_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()

		return
	}

	goleak.VerifyTestMain(m)
}

func TestDeclarations(t *testing.T) {
	t.Parallel()

	o := options{
		Topic: []string{
			"events:dedup=10m:partitioned=true:subscription=projector:sessions=true:lock=30s:max-deliveries=3:subscription=all",
			"filtered:max-message=1024:subscription=some:ttl=1h:filter=a = 'b:c' AND n > 1",
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
				Name: "events", DuplicateDetectionWindow: 10 * time.Minute, Partitioned: true,
				Subscriptions: []sbemu.Subscription{
					{Name: "projector", RequiresSession: true, LockDuration: 30 * time.Second, MaxDeliveryCount: 3},
					{Name: "all"},
				},
			},
			{
				Name: "filtered", MaxMessageSize: 1024,
				Subscriptions: []sbemu.Subscription{
					{Name: "some", DefaultTTL: time.Hour, Rules: []sbemu.Rule{{Name: "filter", SQL: "a = 'b:c' AND n > 1"}}},
				},
			},
		},
		Queues: []sbemu.Queue{{Name: "work", RequiresSession: true, DefaultTTL: 5 * time.Minute, DeadLetterExpired: true}},
	}

	if !reflect.DeepEqual(got, want) {
		t.Fatalf("configuration is\n%+v, want\n%+v", got, want)
	}

	if o := (options{}); o.Validate() != nil {
		t.Fatal("the defaults are refused")
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	t.Parallel()

	err := run(t.Context(), []string{
		"--topic", "events:dedup=soon:nonsense=1", "--topic", "t:filter=1=1", "--queue", "a b", "--tls-address", ":0",
	}, io.Discard, io.Discard)
	if !errors.Is(err, errUsage) {
		t.Fatal(err)
	}

	for _, want := range []string{`value of dedup`, `"nonsense=1"`, "filter needs a subscription", `"a b" is not a valid name`, "--tls-certificate"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported: %v", want, err)
		}
	}
}

func TestHelpAndTakenPorts(t *testing.T) {
	t.Parallel()

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)

	defer func() { _ = taken.Close() }()

	port := taken.Addr().String()

	for _, tt := range []struct {
		args []string
		err  error
		says string
	}{
		{[]string{"--help"}, nil, "SBEMU_HTTP_ADDRESS"},
		{[]string{"--version"}, nil, "sbemu "},
		{[]string{"--nonsense"}, errUsage, "unknown flag --nonsense"},
		{[]string{"--address", port}, syscall.EADDRINUSE, "stop what listens there, or choose another by --address"},
		{[]string{"--address", "127.0.0.1:0", "--http-address", port}, syscall.EADDRINUSE, "stop what listens there, or choose another by --http-address"},
	} {
		var out bytes.Buffer

		err := run(t.Context(), tt.args, &out, &out)
		if !errors.Is(err, tt.err) || !strings.Contains(fmt.Sprint(out.String(), err), tt.says) {
			t.Errorf("%v: %v, want %v and %q:\n%s", tt.args, err, tt.err, tt.says, out.String())
		}
	}
}

// TestProcess runs the command as a process: the printed addresses work, and SIGTERM ends it.
func TestProcess(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	cmd := exec.CommandContext(ctx, os.Args[0], "--address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
	cmd.Env, cmd.Stderr = append(os.Environ(), asCommand+"=1"), os.Stderr

	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())

	lines := bufio.NewScanner(out)
	read := func() string {
		t.Helper()

		if !lines.Scan() {
			t.Fatal("no line", lines.Err())
		}

		return lines.Text()
	}
	address, connection := strings.TrimPrefix(read(), "administration: "), read()

	client, err := azservicebus.NewClientFromConnectionString(connection, nil)
	check(t, err)

	sender, err := client.NewSender("events", nil)
	check(t, err)

	id := "1"
	check(t, sender.SendMessage(ctx, &azservicebus.Message{MessageID: &id, SessionID: &id}, nil))

	response, err := http.Get(address + "/health") //nolint:noctx // a local server of the test
	check(t, err)
	check(t, response.Body.Close())
	http.DefaultClient.CloseIdleConnections()

	if response.StatusCode != http.StatusOK {
		t.Errorf("the HTTP port answers %s", response.Status)
	}

	check(t, client.Close(ctx))
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	check(t, cmd.Wait())
}

func check(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}
