package harness_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// environment is a getenv over fixed variables.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestSelectKind(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]harness.Kind{
		"":           harness.KindEmbedded,
		"embedded":   harness.KindEmbedded,
		"containers": harness.KindContainers,
		"external":   harness.KindExternal,
	} {
		if kind, err := harness.SelectKind(environment(map[string]string{harness.KindVariable: value})); err != nil || kind != want {
			t.Errorf("%q selects %q (%v), not %q", value, kind, err, want)
		}
	}
	_, err := harness.SelectKind(environment(map[string]string{harness.KindVariable: "azure"}))
	if want := `PENSTOCK_TEST_BACKEND is "azure": use embedded, containers or external`; err == nil || err.Error() != want {
		t.Errorf("an unknown value gives %v, not %s", err, want)
	}
}

// LoadExternal reports all mistakes of the environment together.
func TestLoadExternal(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"PENSTOCK_TEST_MONGODB_URI":                  "mongodb://store.invalid/?replicaSet=rs0",
		"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://bus.invalid/;SharedAccessKeyName=n;SharedAccessKey=k",
	}
	emulator := "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true"
	for name, test := range map[string]struct {
		change map[string]string
		tells  []string // empty: the environment is valid
	}{
		"valid": {nil, nil},
		"an emulator with its administration API": {map[string]string{
			"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": emulator,
			"PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT":    "http://localhost:5300",
			"PENSTOCK_TEST_SERVICEBUS_MAX_CONNECTIONS":   "10",
		}, nil},
		"nothing set": {map[string]string{
			"PENSTOCK_TEST_MONGODB_URI": "", "PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": "",
		}, []string{"PENSTOCK_TEST_MONGODB_URI is not set", "PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING is not set"}},
		"no connection string": {map[string]string{
			"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": "bus.invalid",
		}, []string{"is not a connection string"}},
		"connection string of one entity": {map[string]string{
			"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": good["PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING"] + ";EntityPath=events",
		}, []string{"of the whole namespace"}},
		"an emulator without an administration API": {map[string]string{
			"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": emulator,
		}, []string{"set PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT too"}},
		"malformed endpoint, number and prefix": {map[string]string{
			"PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT":  "localhost:5300",
			"PENSTOCK_TEST_SERVICEBUS_MAX_CONNECTIONS": "0",
			"PENSTOCK_TEST_PREFIX":                     "Upper Case",
		}, []string{`use a URL such as`, `use a positive number`, `lower-case letters`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variables := make(map[string]string)
			for _, from := range []map[string]string{good, test.change} {
				for key, value := range from {
					variables[key] = value
				}
			}
			_, err := harness.LoadExternal(environment(variables))
			if (err != nil) != (len(test.tells) > 0) {
				t.Fatalf("gives %v", err)
			}
			for _, word := range test.tells {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not contain %q:\n%v", word, err)
				}
			}
		})
	}
}
