package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/sbemutest"
)

func configFile(t *testing.T, content string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "Config.json")
	check(t, os.WriteFile(path, []byte(content), 0o600))

	return path
}

func TestEmulatorFile(t *testing.T) {
	t.Parallel()

	o := options{As: asEmulator, Config: configFile(t, `{"UserConfig": {
		"Namespaces": [{
			"Name": "sbemulatorns",
			"Queues": [{"Name": "queue.1", "Properties": {
				"DeadLetteringOnMessageExpiration": true, "DefaultMessageTimeToLive": "PT1H", "DuplicateDetectionHistoryTimeWindow": "PT20S",
				"ForwardDeadLetteredMessagesTo": "", "ForwardTo": "", "LockDuration": "PT1M", "MaxDeliveryCount": 3,
				"RequiresDuplicateDetection": false, "RequiresSession": true}}],
			"Topics": [{"Name": "topic.1", "Properties": {
				"DefaultMessageTimeToLive": "P1DT1H30M", "DuplicateDetectionHistoryTimeWindow": "PT20S", "RequiresDuplicateDetection": true},
				"Subscriptions": [{"Name": "subscription.1", "Properties": {"LockDuration": "PT1M", "MaxDeliveryCount": 3, "ForwardTo": "queue.1"},
					"Rules": [
						{"Name": "one", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {
							"ContentType": "text", "Label": "subject1", "SessionId": "s", "Properties": {"prop": "v"}}}},
						{"Name": "two", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}}}
					]}]}]
		}],
		"Logging": {"Type": "File"}}}`)}

	got, err := o.config()
	check(t, err)

	want := sbemu.Config{
		Limits: sbemu.EmulatorLimits(),
		Queues: []sbemu.Queue{{
			Name: "queue.1", DefaultTTL: time.Hour, LockDuration: time.Minute, MaxDeliveryCount: 3,
			DeadLetterExpired: true, RequiresSession: true,
		}},
		Topics: []sbemu.Topic{{
			Name: "topic.1", DefaultTTL: 25*time.Hour + 30*time.Minute, DuplicateDetectionWindow: 20 * time.Second,
			Subscriptions: []sbemu.Subscription{{
				Name: "subscription.1", LockDuration: time.Minute, MaxDeliveryCount: 3, ForwardTo: "queue.1",
				Rules: []sbemu.Rule{
					{Name: "one", Correlation: &sbemu.Correlation{
						ContentType: "text", Subject: "subject1", SessionID: "s", Properties: map[string]any{"prop": "v"},
					}},
					{Name: "two", SQL: "a = 1"},
				},
			}},
		}},
	}

	if !reflect.DeepEqual(got, want) {
		t.Fatalf("configuration is\n%+v, want\n%+v", got, want)
	}
}

func TestWrongEmulatorFiles(t *testing.T) {
	t.Parallel()

	for content, want := range map[string]string{
		`{`:                                  "unexpected end",
		`{"UserConfig": {"Namespaces": []}}`: "has 0 namespaces: use one",
		`{"UserConfig": {"Namespaces": [{"Queues": [{"Name": "q", "Properties": {"LockDuration": "60"}}]}]}}`:          `"60" is not a duration`,
		`{"UserConfig": {"Namespaces": [{"Queues": [{"Name": "q", "Properties": {"LockDuration": "P1M"}}]}]}}`:         `"P1M" is not a duration`,
		`{"UserConfig": {"Namespaces": [{"Topics": [{"Name": "t", "Subscriptions": [{"Rules": [{"Name": "r"}]}]}]}]}}`: "use Sql or Correlation",
	} {
		o := options{Config: configFile(t, content)}
		if _, err := o.config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}

	o := options{Config: filepath.Join(t.TempDir(), "missing")}
	if _, err := o.config(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestEmulatorPort asks for the health and creates a queue, as clients of the emulator do.
func TestEmulatorPort(t *testing.T) {
	t.Parallel()

	srv := sbemutest.Start(t, sbemu.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	address, stop, err := serveHTTP(ctx, "127.0.0.1:0", emulatorHandler(srv))
	check(t, err)

	defer stop()

	response, err := http.Get("http://" + address.String() + "/health") //nolint:noctx // a local server of the test
	check(t, err)

	body, err := io.ReadAll(response.Body)
	check(t, err)
	check(t, response.Body.Close())

	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "healthy") {
		t.Errorf("health is %d %s", response.StatusCode, body)
	}

	client, err := admin.NewClientFromConnectionString(srv.ConnectionString(), &admin.ClientOptions{ClientOptions: plainHTTP(address.String())})
	check(t, err)

	_, err = client.CreateQueue(ctx, "q", nil)
	check(t, err)
	http.DefaultClient.CloseIdleConnections()
}

// plainHTTP are options with which an administration client uses HTTP on another address.
func plainHTTP(address string) azcore.ClientOptions {
	return azcore.ClientOptions{Transport: transport(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host, r.Host = "http", address, address

		return http.DefaultClient.Do(r)
	})}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) Do(r *http.Request) (*http.Response, error) { return t(r) }
