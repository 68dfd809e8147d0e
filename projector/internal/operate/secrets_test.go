package operate

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// An operator can put a secret into the wrong variable. No problem may show it, and no
// variable whose value the service prints may accept it.
func TestNoVariableShowsASecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	projections := filepath.Join(t.TempDir(), "projections.yaml")
	if err := os.WriteFile(projections, []byte("projections: [{name: users, collection: users, on: {Created: {set: {a: payload.a}}}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := map[string]string{
		"MONGODB_URI": "mongodb://127.0.0.1:1/?replicaSet=rs0", "AZURE_SERVICEBUS_TOPIC_NAME": "events", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME": "projector",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k",
		"PENSTOCK_PROJECTIONS":               projections, "OTEL_TRACES_EXPORTER": "otlp",
	}
	parse := func(change map[string]string, args ...string) (*Environment, string, error) {
		var out bytes.Buffer
		lookup := func(name string) (string, bool) {
			value, ok := change[name]
			if !ok {
				value, ok = base[name]
			}
			return value, ok
		}
		l, err := Parse(args, lookup, &out, &out, nil)
		return l, out.String(), err
	}
	l, text, err := parse(nil, "run")
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	variables := append(slices.Clone(l.Variables), "HTTPS_PROXY", "http_proxy")
	slices.Sort(variables)
	variables = slices.Compact(variables)
	// The services redact these, or do not print them.
	secrets := []string{"PENSTOCK_READMODELS_MONGODB_URI", "MONGODB_URI", "PENSTOCK_EVENTS_MONGODB_URI", "PENSTOCK_STATE_MONGODB_URI", "AZURE_SERVICEBUS_CONNECTION_STRING", "HTTPS_PROXY", "http_proxy"}
	for _, variable := range variables {
		for _, value := range []string{
			"mongodb://user:" + secret + "@db:27017/?replicaSet=rs0",
			"http://user:" + secret + "@proxy:port",
			"Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=" + secret,
			"user:" + secret + "@db:27017",
		} {
			args := []string{"run"}
			if variable == "PENSTOCK_WHO" {
				args = []string{"pause", "--why=test"}
			}
			_, text, err := parse(map[string]string{variable: value}, args...)
			if strings.Contains(text, secret) {
				t.Errorf("%s: %s shows the secret of %s:\n%s", args, variable, value, text)
			}
			if !errors.Is(err, cli.ErrUsage) && !slices.Contains(secrets, variable) {
				t.Errorf("%s: %s accepts %s", args, variable, value)
			}
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(base)) {
		if !slices.Contains(variables, variable) {
			t.Errorf("%s is not among the variables", variable)
		}
	}
}
