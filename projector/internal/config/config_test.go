package config_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// minimal returns the smallest valid environment.
func minimal() map[string]string {
	return map[string]string{
		"MONGODB_URI":                        "mongodb://127.0.0.1:27017/?replicaSet=rs0",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true",
		"AZURE_SERVICEBUS_TOPIC_NAME":        "events",
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME": "projector",
		"PENSTOCK_PROJECTIONS":               "projections.yaml",
	}
}

// service is the configuration of the service.
type service struct{ config.Config }

func (c *service) CheckFor(any) error { return c.ValidateParts(config.PartAll) }

func parse(env map[string]string) (config.Config, string, error) {
	var c service
	var stderr bytes.Buffer
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	_, err := cli.Parse(&c, cli.Info{Name: "projector"}, nil, lookup, io.Discard, &stderr)
	return c.Config, stderr.String(), err
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c, problems, err := parse(minimal())
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	if c.Slots() != 128 || c.Connections() != 4 || c.MongoDB.ReadModels().Database != "penstock" || c.Fields.Payload != "payload" {
		t.Errorf("config is %+v", c)
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, problems, err := parse(map[string]string{
		"PENSTOCK_SESSIONS":          "-1",
		"PENSTOCK_CONNECTIONS":       "-1",
		"PENSTOCK_SESSION_IDLE":      "2m",
		"PENSTOCK_BATCH_SIZE":        "5000",
		"PENSTOCK_FLUSH_INTERVAL":    "0s",
		"PENSTOCK_LOAD_BYTES":        "1",
		"PENSTOCK_FAILURE_LIMIT":     "1.5",
		"PENSTOCK_BUFFER_BYTES":      "1",
		"PENSTOCK_SESSION_TENURE":    "1ms",
		"PENSTOCK_BACKLOG_INTERVAL":  "10ms",
		"PENSTOCK_BACKLOG_LIMIT":     "0",
		"PENSTOCK_BEHIND_AFTER":      "0s",
		"PENSTOCK_REFOLD_RATE":       "-1",
		"PENSTOCK_VERIFY_SAMPLE":     "1.5",
		"PENSTOCK_RECONCILE":         "9s",
		"PENSTOCK_ADMIN_ADDRESS":     "nowhere",
		"PENSTOCK_QUERY_ADDRESS":     ":99999",
		"PENSTOCK_DRAIN_TIMEOUT":     "1ms",
		"PENSTOCK_FATAL_AFTER":       "25h",
		"PENSTOCK_FIELD_EVENT_ID":    "a.b",
		"PENSTOCK_STATE_DATABASE":    "a b",
		"AZURE_SERVICEBUS_NAMESPACE": "sb://host",
	})
	if !errors.Is(err, cli.ErrUsage) {
		t.Fatalf("error %v", err)
	}
	for _, variable := range []string{
		"MONGODB_URI", "AZURE_SERVICEBUS_NAMESPACE", "AZURE_SERVICEBUS_TOPIC_NAME", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME",
		"PENSTOCK_PROJECTIONS", "PENSTOCK_SESSIONS", "PENSTOCK_CONNECTIONS", "PENSTOCK_SESSION_HOLD",
		"PENSTOCK_BATCH_SIZE", "PENSTOCK_LOAD_BYTES", "PENSTOCK_FLUSH_INTERVAL", "PENSTOCK_FAILURE_LIMIT", "PENSTOCK_BUFFER_BYTES",
		"PENSTOCK_SESSION_TENURE", "PENSTOCK_BACKLOG_INTERVAL", "PENSTOCK_BACKLOG_LIMIT", "PENSTOCK_BEHIND_AFTER", "PENSTOCK_REFOLD_RATE", "PENSTOCK_VERIFY_SAMPLE", "PENSTOCK_RECONCILE", "PENSTOCK_ADMIN_ADDRESS", "PENSTOCK_QUERY_ADDRESS", "PENSTOCK_DRAIN_TIMEOUT", "PENSTOCK_FATAL_AFTER", "PENSTOCK_FIELD_EVENT_ID", "PENSTOCK_STATE_DATABASE",
	} {
		if !strings.Contains(problems, "- "+variable+" ") {
			t.Errorf("%s is not among the problems", variable)
		}
	}
	if t.Failed() {
		t.Log(problems)
	}
}

func TestDefaultsFollowTheReceiver(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		receiver, connections, sessions, idle string
		wantConnections, wantSessions         int
		wantIdle                              time.Duration
	}{
		{"", "", "", "", 4, 128, 10 * time.Millisecond},
		{"amqp", "0", "0", "0", 4, 128, 10 * time.Millisecond},
		{"sdk", "", "", "", 16, 64, 30 * time.Millisecond},
		{"sdk", "3", "5", "1s", 3, 5, time.Second},
		{"amqp", "64", "4096", "1ms", 64, 4096, time.Millisecond},
	} {
		env := minimal()
		for name, value := range map[string]string{
			"PENSTOCK_RECEIVER": test.receiver, "PENSTOCK_CONNECTIONS": test.connections, "PENSTOCK_SESSION_IDLE": test.idle, "PENSTOCK_SESSIONS": test.sessions,
		} {
			if value != "" {
				env[name] = value
			}
		}
		c, problems, err := parse(env)
		if err != nil || c.Connections() != test.wantConnections || c.Slots() != test.wantSessions || c.SessionIdle() != test.wantIdle {
			t.Errorf("%+v: %d connections, %d sessions, idle %s (%v, %s)", test, c.Connections(), c.Slots(), c.SessionIdle(), err, problems)
		}
	}
}

func TestProjectionsInCodeNeedNoFile(t *testing.T) {
	t.Parallel()
	env := minimal()
	delete(env, "PENSTOCK_PROJECTIONS")
	if _, _, err := parse(env); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("error %v", err)
	}
	c, _, _ := parse(minimal())
	c.Projections.Path, c.Projections.InCode = "", true
	if err := c.ValidateParts(config.PartAll); err != nil {
		t.Error(err)
	}
}

func TestReconcileIsAnIntervalOrOff(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]config.Interval{"": config.Interval(time.Hour), "off": 0, "90s": config.Interval(90 * time.Second)} {
		env := minimal()
		env["PENSTOCK_RECONCILE"] = value
		if c, problems, err := parse(env); err != nil || c.History.Reconcile != want {
			t.Errorf("%q: %v, %v, %s", value, c.History.Reconcile, err, problems)
		}
	}
	for _, value := range []string{"0", "0s", "-1h", "hourly", "60"} {
		env := minimal()
		env["PENSTOCK_RECONCILE"] = value
		if _, problems, err := parse(env); err == nil || !strings.Contains(problems, "not an interval: use off") {
			t.Errorf("%q: %v, %s", value, err, problems)
		}
	}
}
