package testkit

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// redacted are variables that the services redact, or do not print.
var redacted = []string{
	"MONGODB_URI", "PENSTOCK_EVENTS_MONGODB_URI", "PENSTOCK_STATE_MONGODB_URI", "PENSTOCK_READMODELS_MONGODB_URI",
	"AZURE_SERVICEBUS_CONNECTION_STRING", "HTTPS_PROXY", "http_proxy",
}

// NoVariableShowsASecret puts a secret into each variable of a program, as an operator can by
// mistake. No problem may show it, and no variable whose value the service prints may accept
// it. parse parses a command line and returns the names of its variables. base has the other
// settings that the program needs.
func NoVariableShowsASecret(t *testing.T, base map[string]string, parse func(args []string, lookup func(string) (string, bool), out io.Writer) (variables []string, err error)) {
	t.Helper()
	const secret = "hunter2"
	settings := map[string]string{
		"MONGODB_URI": "mongodb://127.0.0.1:1/?replicaSet=rs0", "AZURE_SERVICEBUS_TOPIC_NAME": "events",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k",
		"OTEL_TRACES_EXPORTER":               "otlp",
	}
	maps.Copy(settings, base)
	run := func(variable, value string, args ...string) ([]string, string, error) {
		var out bytes.Buffer
		variables, err := parse(args, func(name string) (string, bool) {
			if name == variable {
				return value, true
			}
			found, ok := settings[name]
			return found, ok
		}, &out)
		return variables, out.String(), err
	}
	variables, text, err := run("", "", "run")
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name := range settings {
		if !slices.Contains(variables, name) {
			t.Errorf("%s is not among the variables", name)
		}
	}
	for _, variable := range append(variables, "HTTPS_PROXY", "http_proxy") {
		args := []string{"run"}
		if variable == "PENSTOCK_WHO" {
			args = []string{"checkpoint", "set", "now", "--why=test"}
		}
		for _, value := range []string{
			"mongodb://user:" + secret + "@db:27017/?replicaSet=rs0",
			"http://user:" + secret + "@proxy:port",
			"Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=" + secret,
			"user:" + secret + "@db:27017",
		} {
			_, text, err := run(variable, value, args...)
			if strings.Contains(text, secret) {
				t.Errorf("%s: %s shows the secret of %s:\n%s", args, variable, value, text)
			}
			if !errors.Is(err, cli.ErrUsage) && !slices.Contains(redacted, variable) {
				t.Errorf("%s: %s accepts %s", args, variable, value)
			}
		}
	}
}
