package config_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// enough is the smallest valid environment.
func enough() map[string]string {
	return map[string]string{
		"MONGODB_URI":                        "mongodb://db/?replicaSet=rs0",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://bus.example;SharedAccessKeyName=n;SharedAccessKey=secretkey",
		"AZURE_SERVICEBUS_TOPIC_NAME":        "events",
	}
}

// service is the configuration of the service.
type service struct{ config.Config }

func (c *service) CheckFor(any) error { return c.Check() }

func parse(env map[string]string, args ...string) (config.Config, string, error) {
	var c service
	var stdout, stderr bytes.Buffer
	_, err := cli.Parse(&c, cli.Info{Name: "publisher"}, args, func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}, &stdout, &stderr)
	return c.Config, stdout.String() + stderr.String(), err
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, text, err := parse(enough())
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if c.Election.Kind != config.ElectionKubernetes || !strings.HasPrefix(c.LeaseName(), "penstock-publisher-events-") || c.Election.Host() == "" {
		t.Errorf("election %+v", c.Election)
	}
	if c.Stream.Silence != time.Minute || c.Publish.MaxInflightEvents != 8192 || !c.Publish.ClaimCheck || c.Process.AdminAddress != ":8080" {
		t.Errorf("defaults are %+v", c)
	}
	if start, err := c.Stream.StartPoint(); err != nil || start != (config.StartPoint{}) || start.String() != "beginning" {
		t.Errorf("starts at %v: %v", start, err)
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want []string // the beginning of each line
	}{
		"nothing is set": {map[string]string{}, nil, []string{
			"MONGODB_URI", "AZURE_SERVICEBUS_CONNECTION_STRING", "AZURE_SERVICEBUS_TOPIC_NAME",
		}},
		"events in a collection of the publisher": {
			map[string]string{
				"MONGODB_URI": enough()["MONGODB_URI"], "AZURE_SERVICEBUS_CONNECTION_STRING": enough()["AZURE_SERVICEBUS_CONNECTION_STRING"],
				"AZURE_SERVICEBUS_TOPIC_NAME": "events", "PENSTOCK_EVENTS_COLLECTION": "checkpoints",
			}, nil, []string{"PENSTOCK_EVENTS_COLLECTION"},
		},
		"everything is wrong": {map[string]string{
			"MONGODB_URI":                   "http://db",
			"AZURE_SERVICEBUS_NAMESPACE":    "https://bus/",
			"PENSTOCK_FIELD_EVENT_ID":       "a.b",
			"PENSTOCK_STREAM":               "$x",
			"PENSTOCK_START":                "soon",
			"PENSTOCK_PREFETCH_BYTES":       "12",
			"PENSTOCK_STREAM_SILENCE":       "5s",
			"PENSTOCK_SESSION_MODE":         "bucket",
			"PENSTOCK_SESSION_BUCKETS":      "0",
			"PENSTOCK_CLOUDEVENTS_SOURCE":   "%zz",
			"PENSTOCK_CONNECTIONS":          "0",
			"PENSTOCK_MAX_INFLIGHT_EVENTS":  "-1",
			"PENSTOCK_MAX_INFLIGHT_BYTES":   "1",
			"PENSTOCK_CHECKPOINT_INTERVAL":  "1h",
			"PENSTOCK_MAX_SEND_ATTEMPTS":    "1",
			"PENSTOCK_FATAL_AFTER":          "-1s",
			"PENSTOCK_LEASE_NAME":           "Not_DNS",
			"PENSTOCK_LEASE_DURATION":       "1500ms",
			"PENSTOCK_LEASE_RENEW_DEADLINE": "0s",
			"PENSTOCK_LEASE_RETRY_PERIOD":   "-1s",
			"PENSTOCK_ADMIN_ADDRESS":        ":99999",
			"PENSTOCK_DRAIN_TIMEOUT":        "1ms",
		}, nil, []string{
			"MONGODB_URI", "AZURE_SERVICEBUS_NAMESPACE", "AZURE_SERVICEBUS_TOPIC_NAME",
			"PENSTOCK_FIELD_EVENT_ID", "PENSTOCK_STREAM", "PENSTOCK_START", "PENSTOCK_PREFETCH_BYTES", "PENSTOCK_STREAM_SILENCE",
			"PENSTOCK_SESSION_BUCKETS", "PENSTOCK_CLOUDEVENTS_SOURCE", "PENSTOCK_CONNECTIONS", "PENSTOCK_MAX_INFLIGHT_EVENTS", "PENSTOCK_MAX_INFLIGHT_BYTES",
			"PENSTOCK_CHECKPOINT_INTERVAL", "PENSTOCK_MAX_SEND_ATTEMPTS", "PENSTOCK_FATAL_AFTER", "PENSTOCK_LEASE_NAME", "PENSTOCK_LEASE_DURATION", "PENSTOCK_LEASE_RENEW_DEADLINE",
			"PENSTOCK_LEASE_RETRY_PERIOD", "PENSTOCK_ADMIN_ADDRESS", "PENSTOCK_DRAIN_TIMEOUT",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, text, err := parse(test.env, test.args...)
			if !errors.Is(err, cli.ErrUsage) {
				t.Fatalf("ended with %v", err)
			}
			for _, variable := range test.want {
				if !strings.Contains(text, "\n  - "+variable+" ") {
					t.Errorf("no line for %s", variable)
				}
			}
			if lines := strings.Count(text, "\n  - "); lines != len(test.want) {
				t.Errorf("%d lines, want %d:\n%s", lines, len(test.want), text)
			}
		})
	}
}

func TestDurationsAreCheckedAgainstEachOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		want string // empty: valid
	}{
		"as short as the sandbox's":        {map[string]string{"PENSTOCK_LEASE_DURATION": "6s", "PENSTOCK_LEASE_RENEW_DEADLINE": "4s", "PENSTOCK_LEASE_RETRY_PERIOD": "1s"}, ""},
		"deadline not below the duration":  {map[string]string{"PENSTOCK_LEASE_RENEW_DEADLINE": "15s"}, "the leader must give up"},
		"thousands of requests":            {map[string]string{"PENSTOCK_LEASE_RETRY_PERIOD": "1ms"}, "use at least 100ms"},
		"no time to stop":                  {map[string]string{"PENSTOCK_LEASE_RENEW_DEADLINE": "14999ms"}, "the leader must give up"},
		"only one attempt":                 {map[string]string{"PENSTOCK_LEASE_RETRY_PERIOD": "9s"}, "there is only one attempt"},
		"a name that only MongoDB takes":   {map[string]string{"PENSTOCK_ELECTION": "mongodb", "PENSTOCK_LEASE_NAME": "Not_DNS"}, ""},
		"a stream whose lease has no name": {map[string]string{"PENSTOCK_STREAM": "my_stream"}, "penstock-publisher-my_stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := enough()
			maps.Copy(env, test.env)
			_, text, err := parse(env)
			if (err == nil) != (test.want == "") || !strings.Contains(text, test.want) {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// A standby behind another pipeline's leader would wait forever.
func TestEachPipelineHasItsOwnLease(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for what, change := range map[string]string{
		"": "PENSTOCK_IDENTITY=a", "database": "PENSTOCK_EVENTS_DATABASE=b", "collection": "PENSTOCK_EVENTS_COLLECTION=c",
		"topic": "AZURE_SERVICEBUS_TOPIC_NAME=d", "stream": "PENSTOCK_STREAM=e",
		"namespace": "AZURE_SERVICEBUS_CONNECTION_STRING=Endpoint=sb://other.example;SharedAccessKeyName=n;SharedAccessKey=k",
	} {
		env := enough()
		key, value, _ := strings.Cut(change, "=")
		env[key] = value
		c, text, err := parse(env)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if other, taken := names[c.LeaseName()]; taken {
			t.Errorf("another %s has the lease of another %s", what, other)
		}
		names[c.LeaseName()] = what
	}
}

func TestStartPoint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"beginning":                 "beginning",
		"now":                       "now",
		"2026-03-01T00:00:00Z":      "2026-03-01T00:00:00Z",
		"2026-03-01T00:00:00+01:00": "2026-03-01T00:00:00+01:00",
		"9999-01-01T00:00:00Z":      "",
		"1960-01-01T00:00:00Z":      "",
		"2026-03-01":                "",
		"":                          "",
	} {
		start, err := config.Stream{Start: text}.StartPoint()
		if (err == nil) != (want != "") || err == nil && start.String() != want {
			t.Errorf("%q starts at %v: %v", text, start, err)
		}
	}
}
